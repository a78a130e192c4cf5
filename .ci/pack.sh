# Sourced: pack, an archive whose bytes depend on names, modes and contents of the files alone.

# FOLDER OUT.tar.gz: the files under FOLDER, in the order of their names, of no owner and no time.
pack() {
  (cd "$1" && find . -type f -printf '%P\n' | LC_ALL=C sort |
    tar --create --no-recursion --files-from=- --format=ustar --mode=u+rw,go=rX --mtime=@0 \
    --owner=0 \
      --group=0 --numeric-owner) |
    gzip -9n >"$2"
}
