# Sourced: the certificates of a Kubernetes for tests. REQUIRES: $pki, a folder.

# NAME: an authority, NAME.crt and NAME.key.
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=$1" \
    -keyout "$pki/$1.key" -out "$pki/$1.crt" 2>/dev/null
}

# NAME BEFORE AFTER: an authority in the middle of its life: began BEFORE days ago, ends in AFTER
# days.
aged_authority() {
  local folder
  folder=$(mktemp -d)
  printf '%s\n' '[ca]' default_ca=ca "database=$folder/index" "new_certs_dir=$folder" \
    default_md=sha256 rand_serial=yes policy=policy \
    x509_extensions=extensions '[policy]' commonName=supplied '[extensions]' \
    basicConstraints=critical,CA:TRUE \
    keyUsage=critical,keyCertSign,cRLSign subjectKeyIdentifier=hash >"$folder/settings"
  touch "$folder/index"
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
    -keyout "$pki/$1.key" -out "$folder/csr" 2>/dev/null
  openssl ca -batch -config "$folder/settings" -selfsign -keyfile "$pki/$1.key" -in "$folder/csr" \
    -out "$pki/$1.crt" -notext \
    -startdate "$(date -u -d "-$2 days" +%Y%m%d%H%M%SZ)" \
    -enddate "$(date -u -d "+$3 days" +%Y%m%d%H%M%SZ)" 2>/dev/null
  rm -r "$folder"
}

# NAME AUTHORITY SUBJECT USAGE [ALTERNATIVE NAMES]: NAME.crt and NAME.key.
certificate() {
  printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\n%s\n' "$4" \
    "${5:+subjectAltName=$5}" >"$pki/$1.ext"
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/$1.key" \
    -subj "$3" -out "$pki/$1.csr" 2>/dev/null
  openssl x509 -req -days 365 -in "$pki/$1.csr" -CA "$pki/$2.crt" -CAkey "$pki/$2.key" \
    -CAcreateserial -extfile "$pki/$1.ext" \
    -out "$pki/$1.crt" 2>/dev/null
  rm -f "$pki/$1.ext" "$pki/$1.csr"
}

# The key pair that signs and checks ServiceAccounts' tokens.
account_key() {
  openssl genrsa -out "$pki/sa.key" 2048 2>/dev/null
}

# NAME URL FILE: a kubeconfig of certificate NAME, whole in itself.
kubeconfig() {
  cat >"$3" <<END
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 "$pki/ca.crt")}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$pki/$1.crt"), client-key-data: $(base64 -w0 "$pki/$1.key")}}]
contexts: [{name: test, context: {cluster: test, user: $1}}]
current-context: test
END
}
