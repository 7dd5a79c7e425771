package inspect

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/simulate"
)

// chainOf is a message with a base chain of an interface, as the kernel sends one.
func chainOf(family uint8, hook uint32, devices []byte) netlink.Message {
	hooks := slices.Concat(
		attribute(unix.NFTA_HOOK_HOOKNUM, binary.BigEndian.AppendUint32(nil, hook)),
		attribute(unix.NFTA_HOOK_PRIORITY, binary.BigEndian.AppendUint32(nil, 7)),
		attribute(hookDevices|unix.NLA_F_NESTED, devices),
	)
	return netlink.Message{Data: slices.Concat([]byte{family, 0, 0, 0},
		attribute(unix.NFTA_CHAIN_TABLE, []byte("guard\x00")),
		attribute(unix.NFTA_CHAIN_NAME, []byte("in\x00")),
		attribute(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, hooks),
	)}
}

func TestChainsKeepTheirInterfaces(t *testing.T) {
	devices := slices.Concat(
		attribute(deviceName, []byte("eth1\x00")), attribute(deviceName, []byte("eth2\x00")), attribute(devicePrefix, []byte("veth")))
	for _, tc := range []struct {
		family uint8
		hook   uint32
	}{{unix.NFPROTO_NETDEV, netdevIngress}, {unix.NFPROTO_INET, uint32(simulate.HookIngress)}} {
		b, hooked, err := decodeBaseChain(chainOf(tc.family, tc.hook, devices))
		if err != nil || !hooked || b.Hook != simulate.HookIngress || b.Priority != 7 || !slices.Equal(b.Devices, []string{"eth1", "eth2", "veth*"}) {
			t.Errorf("family %d: %+v, hooked %t, %v", tc.family, b, hooked, err)
		}
	}
}
