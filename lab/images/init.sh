#!/bin/sh
# The first process of a guest: reach the root disk, put the guest's own files on it, hand over.

echo 'LAB-PHASE initramfs'
mount -t proc proc /proc
read -r cmdline < /proc/cmdline

case " $cmdline " in *' lab.probe '*)
    echo 'LAB-PROBE-OK'
    exec poweroff -f
esac

fail() {
    echo "LAB-FAILED initramfs: $*"
    exec poweroff -f
}

mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do
    insmod "$module" || fail "cannot load $module"
done

# A SCSI disk's serial is page 0x80: four bytes, the last its length, and the serial itself.
find_root() {
    for page in /sys/class/block/sd*/device/vpd_pg80; do
        [ -e "$page" ] || continue
        case "$(cat "$page")" in *[!a-z0-9-]root)
            page=${page%/device/*}
            root_disk=/dev/${page##*/}
            return 0
        esac
    done
    return 1
}

tries=0
until find_root; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail 'no SCSI disk has the serial "root" (waited 30 s)'
    usleep 50000
done
mount -t ext4 -o noatime "$root_disk" /root || fail "cannot mount $root_disk"

for word in $cmdline; do
    case "$word" in lab.mgmt=*) management_mac=${word#lab.mgmt=};; esac
done
if [ -n "$management_mac" ]; then
    for address in /sys/class/net/*/address; do
        read -r mac < "$address"
        [ "$mac" = "$management_mac" ] || continue
        nic=${address%/address}
        nic=${nic##*/}
    done
    [ -n "$nic" ] || fail "no NIC has the address $management_mac"
    ip address add 10.0.2.15/24 dev "$nic" && ip link set "$nic" up || fail "cannot set up $nic"
fi

# Without -p the directories of the image keep their modes; new files have those of the seed.
cp -R --remove-destination /seed/. /root/ || fail 'cannot copy the seed'

mount --move /dev /root/dev
mount --move /proc /root/proc
mount --move /sys /root/sys
echo 'LAB-PHASE userspace'
exec switch_root /root /sbin/init
fail "no /sbin/init on $root_disk"
