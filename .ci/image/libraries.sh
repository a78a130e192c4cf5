# Sourced: the libraries that a program loads, and their licences.

# All that PROGRAM loads, the loader too, a path a line.
libraries() {
  ldd "$1" | grep -oE '/[^ )]+' | sort -u
}

# FILE: the Debian package of FILE; empty if no package has the file. dpkg knows one of the two
# paths.
package_of() {
  dpkg -S "$1" "/usr$1" 2>/dev/null | head -1 | cut -d: -f1 || true
}

# FILE INTO: the licence of the package of FILE, if Debian keeps one, to INTO/PACKAGE/copyright.
copy_licence() {
  local package
  package=$(package_of "$1")
  if [ -n "$package" ]; then
    install -D -m 0644 "/usr/share/doc/$package/copyright" "$2/$package/copyright"
  fi
}
