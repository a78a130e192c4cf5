# Sourced: the libraries that a program loads, and their licences.

# All that PROGRAM loads, the loader too, a path a line.
libraries() {
  ldd "$1" | grep -oE '/[^ )]+' | sort -u
}

# FILE: the Debian package that FILE is of; empty where no package has it. dpkg knows one of the two
# paths.
package_of() {
  dpkg -S "$1" "/usr$1" 2>/dev/null | head -1 | cut -d: -f1 || true
}

# FILE INTO: the licence of the package that FILE is of, where Debian keeps it, to
# INTO/PACKAGE/copyright.
copy_licence() {
  local package
  package=$(package_of "$1")
  if [ -n "$package" ]; then install -D -m 0644 "/usr/share/doc/$package/copyright" "$2/$package/copyright"; fi
}
