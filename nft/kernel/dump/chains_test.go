package dump

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/simulate"
)

// chainOf returns a message with a base chain of an interface, as the kernel sends one.
func chainOf(family uint8, hook uint32, devices []byte) message {
	hooks := slices.Concat(
		attribute(unix.NFTA_HOOK_HOOKNUM, binary.BigEndian.AppendUint32(nil, hook)),
		attribute(unix.NFTA_HOOK_PRIORITY, binary.BigEndian.AppendUint32(nil, 7)),
		attribute(hookDevices|unix.NLA_F_NESTED, devices),
	)
	return message{family, slices.Concat(
		attribute(unix.NFTA_CHAIN_TABLE, []byte("guard\x00")),
		attribute(unix.NFTA_CHAIN_NAME, []byte("in\x00")),
		attribute(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, hooks),
	)}
}

func TestDecodeBaseChainReadsDevices(t *testing.T) {
	devices := slices.Concat(
		attribute(deviceName, []byte("eth1\x00")), attribute(deviceName, []byte("eth2\x00")), attribute(devicePrefix, []byte("veth")))
	for _, tc := range []struct {
		family uint8
		hook   uint32
	}{{unix.NFPROTO_NETDEV, 0}, {unix.NFPROTO_INET, 5}} {
		var d attr.Decoder
		c := decodeChain(&d, chainOf(tc.family, tc.hook, devices))
		if d.Err() != nil || !seesIP(c) || c.Hook != simulate.HookIngress || c.Priority != 7 || !slices.Equal(c.Devices, []string{"eth1", "eth2", "veth*"}) {
			t.Errorf("family %d: %+v, %v", tc.family, c, d.Err())
		}
	}
}
