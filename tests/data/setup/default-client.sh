#!/bin/sh
set -eu
modprobe -a ib_uverbs rdma_rxe rdma_ucm
nic_by_mac() {
    for each in /sys/class/net/*; do
        read -r address < "$each/address"
        if [ "$address" = "$1" ]; then dev=${each##*/}; return; fi
    done
    echo "no NIC has the address $1" >&2
    return 1
}
nic_by_mac 52:54:00:05:00:00
rename=; [ "$dev" = lan0 ] || rename="link set $dev down
link set $dev name lan0"
ip -batch - <<END
$rename
link set lan0 mtu 9000
address replace 10.65.64.1/24 dev lan0
link set lan0 up
END
rdma link add rxe0 type rxe netdev lan0
