# usage: certificates.sh FOLDER ORGANISATION USER DAYS PROXY-DAYS HOST...
# A CA, a certificate for each host, and one for a user with a proxy of it, as Globus wants them.
folder=$1 organisation=$2 user=$3 days=$4 proxy_days=$5
shift 5
umask 077
cd "$folder"
exec 2>openssl.log
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj "$organisation/CN=CA" -days "$days"
hash=$(openssl x509 -in ca.pem -noout -hash)
mkdir -p certificates
cp ca.pem "certificates/$hash.0"
cat >"certificates/$hash.signing_policy" <<EOF
access_id_CA X509 '$organisation/CN=CA'
pos_rights globus CA:sign
cond_subjects globus '"$organisation/*"'
EOF
for name in "$user" "$@"; do
    openssl req -newkey rsa:2048 -nodes -keyout "$name.key" -out "$name.csr" -subj "$organisation/CN=$name"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$days" -out "$name.pem"
done
X509_CERT_DIR=$PWD/certificates grid-proxy-init -q -cert "$user.pem" -key "$user.key" -out proxy.pem \
    -valid "$((24 * proxy_days)):00" >&2
