#!/bin/sh
set -eu
modprobe -a e1000e
nic_by_mac() {
    for each in /sys/class/net/*; do
        [ "$(cat "$each/address")" = "$1" ] && echo "${each##*/}" && return
    done
    echo "no NIC has the address $1" >&2
    return 1
}
dev=$(nic_by_mac 52:54:00:aa:bb:cc)
[ "$dev" = lan0 ] || ip link set "$dev" down name lan0
ip link set lan0 mtu 4200
ip addr replace 10.65.64.1/24 dev lan0
ethtool -K lan0 tso off
ethtool -L lan0 combined 4
ip link set lan0 up
dev=$(nic_by_mac 52:54:00:05:00:01)
[ "$dev" = lan1 ] || ip link set "$dev" down name lan1
ip link set lan1 mtu 9000
ip addr replace 10.65.64.33/24 dev lan1
ethtool -K lan1 tx off
ip link set lan1 up
