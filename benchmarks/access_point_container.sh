#!/bin/sh
# The access point of site-configs/container, built of Debian, against a testbed's pool: it joins in the network of kdc,
# which is no host of the pool, and its user runs the doctor and four trials there.
#
# usage: access_point_container.sh NAME [FOLDER]    (as root; NAME: a testbed that is up; wants buildah and mmdebstrap)
#
# FOLDER (/var/tmp/access-point) keeps the images and the run; remove it when you are done. TIERBENCH (tierbench) is the
# command to use. exit status: that of `tierbench run`, 0 or 1, where all worked
set -eu
name=$1 folder=${2:-/var/tmp/access-point}
project=$(cd "$(dirname "$0")/.." && pwd)
authorities=/etc/ssl/certs/ca-certificates.crt # this machine's: it may be behind a proxy of its own
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
images="--root $folder/storage --runroot $folder/run"
testbed() { ${TIERBENCH:-tierbench} testbed exec --name "$name" "$@"; }

mkdir -p "$folder/dist"
if ! buildah $images inspect --type image localhost/trixie >/dev/null 2>&1; then
    mmdebstrap --variant=minbase --include=ca-certificates trixie "$folder/base.tar"
    empty=$(buildah $images from scratch)
    buildah $images add "$empty" "$folder/base.tar" /
    buildah $images commit --rm "$empty" localhost/trixie
    rm "$folder/base.tar"
fi
rm -f "$folder"/dist/*
python3 -m pip wheel --quiet --no-deps --wheel-dir "$folder/dist" "$project"
cp "$project/site-configs/container/access-point.conf" "$project/site-configs/htcondor/50-tierbench-access-point.conf" \
    "$folder/dist"
buildah $images build --layers --network host --volume "$authorities:$authorities:ro" --tag localhost/access-point \
    --build-arg BASE=localhost/trixie --file "$project/site-configs/container/Containerfile.debian" "$folder/dist"

# What an admin gives it: the pool's name and domain, a token of the pool, the site's file.
rm -rf "$folder/tokens" "$folder/runs"
mkdir "$folder/tokens" "$folder/runs"
domain=$(testbed ce -- condor_config_val UID_DOMAIN)
testbed ce -- condor_token_create -identity "condor@$domain" >"$folder/tokens/pool"
testbed ce -- cat /etc/tierbench/testbed.toml >"$folder/runs/my-site.toml"
testbed ce -- cat /etc/hosts >"$folder/hosts"
cat >"$folder/runs/contained.toml" <<'EXPERIMENT'
name = "contained"
question = "Does an access point in a container run trials?"
access = ["wan-xrootd-public", "wan-xrootd-krb5"]
batches = [1, 2]
repeats = 1
sample_period_s = 0.2
workloads.copy = { client = "xrdcp", replicas = "contained" }
replicas.contained = { kind = "random", count = 2, size_mb = 64 }
EXPERIMENT
testbed --user bench vmuf -- sh -c 'cat >contained.toml; tierbench replicas contained.toml --site testbed' \
    <"$folder/runs/contained.toml"
address=$(testbed kdc -- hostname -i)
start=$(buildah $images inspect --type image --format '{{index .OCIv1.Config.Cmd 2}}' localhost/access-point)
cat >"$folder/runs/all.sh" <<ALL
($start) & master=\$!
until condor_q >/dev/null 2>&1; do kill -0 \$master; sleep 0.5; done
tierbench doctor --quick --site ./my-site.toml --experiment ./contained.toml
tierbench run ./contained.toml --site ./my-site.toml --no-links --into run; status=\$?
kill \$master; wait \$master
exit \$status
ALL
container=$(buildah $images from localhost/access-point)
trap 'buildah $images rm "$container" >/dev/null' EXIT
buildah $images config --volume /runs- --volume /tokens- "$container" # else buildah 1.28 mounts these over ours
chown -R "$(buildah $images run "$container" id -u)" "$folder/tokens" "$folder/runs"
chmod -R go= "$folder/tokens"
init=$(cut -d ' ' -f 1 "${TIERBENCH_HOME:-/var/lib/tierbench}/testbeds/$name/hosts/kdc/init")
nsenter --target "$init" --net --uts -- buildah $images run --network host --hostname kdc.uf.test --no-hosts \
    --volume "$folder/tokens:/tokens" --volume "$folder/runs:/runs" --volume "$folder/hosts:/etc/hosts:ro" \
    --env _CONDOR_CONDOR_HOST=ce.fiu.test --env "_CONDOR_UID_DOMAIN=$domain" --env "_CONDOR_NETWORK_INTERFACE=$address" \
    "$container" sh -c 'cd /runs; HOME=/home/$(id -un) sh -u all.sh'
