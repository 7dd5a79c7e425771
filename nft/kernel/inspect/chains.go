package inspect

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// BaseChains implements [simulate.Rules].
func (r *Rules) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	if !r.haveBaseChains {
		if err := r.readBaseChains(); err != nil {
			return nil, fmt.Errorf("list base chains: %w", err)
		}
	}
	var out []simulate.BaseChain
	for _, b := range r.baseChains {
		if appliesTo(b.Chain.Table.Family, f) {
			out = append(out, b)
		}
	}
	return out, nil
}

func (r *Rules) readBaseChains() error {
	dormant, err := r.dormant()
	if err != nil {
		return err
	}
	r.baseChains = nil
	err = r.get(unix.NFT_MSG_GETCHAIN, netlink.Dump, unix.NFPROTO_UNSPEC, nil, func(m netlink.Message) error {
		b, hooked, err := decodeBaseChain(m)
		if hooked && !dormant[b.Chain.Table] {
			r.baseChains = append(r.baseChains, b)
		}
		return err
	})
	r.haveBaseChains = err == nil
	return err
}

// dormant are the tables that are switched off.
func (r *Rules) dormant() (map[simulate.Table]bool, error) {
	out := map[simulate.Table]bool{}
	err := r.get(unix.NFT_MSG_GETTABLE, netlink.Dump, unix.NFPROTO_UNSPEC, nil, func(m netlink.Message) error {
		t := simulate.Table{Family: familyOf(m)}
		var flags uint32
		err := attributes(m, func(ad *netlink.AttributeDecoder) {
			switch ad.Type() {
			case unix.NFTA_TABLE_NAME:
				t.Name = ad.String()
			case unix.NFTA_TABLE_FLAGS:
				flags = ad.Uint32()
			}
		})
		out[t] = flags&unix.NFT_TABLE_F_DORMANT != 0
		return err
	})
	return out, err
}

// familyOf is the family of a message, in nft's words.
func familyOf(m netlink.Message) string {
	if len(m.Data) == 0 {
		return ""
	}
	return families[m.Data[0]]
}

// decodeBaseChain reads a chain; false if no hook leads there, or none that is on the way
// of a packet.
func decodeBaseChain(m netlink.Message) (b simulate.BaseChain, hooked bool, err error) {
	t := simulate.Table{Family: familyOf(m)}
	number := uint32(0)
	decode := func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_CHAIN_TABLE:
			t.Name = ad.String()
		case unix.NFTA_CHAIN_NAME:
			b.Chain.Name = ad.String()
		case unix.NFTA_CHAIN_TYPE:
			b.Type = ad.String()
		case unix.NFTA_CHAIN_POLICY:
			b.PolicyDrop = ad.Uint32() == policyDrop
		case unix.NFTA_CHAIN_HOOK:
			hooked = true
			err = errors.Join(err, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				switch ad.Type() {
				case unix.NFTA_HOOK_HOOKNUM:
					number = ad.Uint32()
				case unix.NFTA_HOOK_PRIORITY:
					b.Priority = int32(ad.Uint32())
				case hookDevices: // which has the one of NFTA_HOOK_DEV, too
					err = errors.Join(err, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) { b.Devices = appendDevice(b.Devices, ad) }))
				}
			}))
		}
	}
	err = errors.Join(err, attributes(m, decode))
	b.Chain.Table = t
	b.Hook = simulate.Hook(number)
	if t.Family == "netdev" {
		b.Hook = simulate.HookIngress
		hooked = hooked && number == netdevIngress
	}
	return b, hooked && t.Family != "" && b.Hook <= simulate.HookIngress, err
}

// appendDevice reads one of the interfaces that a chain is for.
func appendDevice(list []string, ad *netlink.AttributeDecoder) []string {
	switch ad.Type() {
	case deviceName:
		return append(list, ad.String())
	case devicePrefix:
		return append(list, ad.String()+"*")
	}
	return list
}

const (
	policyDrop    = 0 // NF_DROP
	netdevIngress = 0 // NF_NETDEV_INGRESS

	hookDevices  = 4 // NFTA_HOOK_DEVS
	deviceName   = 1 // NFTA_DEVICE_NAME
	devicePrefix = 2 // NFTA_DEVICE_PREFIX, since Linux 6.16
)

// Rules implements [simulate.Rules].
func (r *Rules) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	if list, ok := r.rules[c]; ok {
		return list, nil
	}
	list, err := r.readRules(c)
	if err != nil {
		return nil, fmt.Errorf("list the rules of chain %s in table %s: %w", c.Name, c.Table, err)
	}
	r.rules[c] = list
	return list, nil
}

func (r *Rules) readRules(c simulate.Chain) (list []simulate.Rule, err error) {
	by, err := encode(func(enc *netlink.AttributeEncoder) {
		enc.String(unix.NFTA_RULE_TABLE, c.Table.Name)
		enc.String(unix.NFTA_RULE_CHAIN, c.Name)
	})
	if err != nil {
		return nil, err
	}
	family := familyNumber(c.Table.Family)
	err = r.get(unix.NFT_MSG_GETRULE, netlink.Dump, family, by, func(m netlink.Message) error {
		rule, err := decodeRule(family, m)
		list = append(list, rule)
		return err
	})
	return list, err
}
