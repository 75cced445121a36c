#!/bin/sh
set -eu
modprobe -a e1000e
nic_by_mac() {
    for each in /sys/class/net/*; do
        read -r address < "$each/address"
        if [ "$address" = "$1" ]; then dev=${each##*/}; return; fi
    done
    echo "no NIC has the address $1" >&2
    return 1
}
nic_by_mac 52:54:00:aa:bb:cc
ethtool -K "$dev" tso off
ethtool -L "$dev" combined 4
rename=; [ "$dev" = lan0 ] || rename="link set $dev down
link set $dev name lan0"
ip -batch - <<END
$rename
link set lan0 mtu 4200
address replace 10.65.64.1/24 dev lan0
link set lan0 up
END
nic_by_mac 52:54:00:05:00:01
ethtool -K "$dev" tx off
rename=; [ "$dev" = lan1 ] || rename="link set $dev down
link set $dev name lan1"
ip -batch - <<END
$rename
link set lan1 mtu 9000
address replace 10.65.64.33/24 dev lan1
link set lan1 up
END
