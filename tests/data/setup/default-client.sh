#!/bin/sh
set -eu
modprobe -a ib_uverbs rdma_rxe rdma_ucm
nic_by_mac() {
    for each in /sys/class/net/*; do
        [ "$(cat "$each/address")" = "$1" ] && echo "${each##*/}" && return
    done
    echo "no NIC has the address $1" >&2
    return 1
}
dev=$(nic_by_mac 52:54:00:05:00:00)
[ "$dev" = lan0 ] || ip link set "$dev" down name lan0
ip link set lan0 mtu 9000
ip addr replace 10.65.64.1/24 dev lan0
ip link set lan0 up
rdma link add rxe0 type rxe netdev lan0
