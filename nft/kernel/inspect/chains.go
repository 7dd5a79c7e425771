package inspect

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
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
	tables, err := r.tables()
	if err != nil {
		return err
	}
	r.baseChains = nil
	err = r.get(unix.NFT_MSG_GETCHAIN, netlink.Dump, unix.NFPROTO_UNSPEC, nil, func(d *attr.Decoder, m message) {
		if b, hooked := decodeBaseChain(d, m); hooked && !tables[b.Chain.Table].dormant {
			r.baseChains = append(r.baseChains, b)
		}
	})
	r.haveBaseChains = err == nil
	return err
}

// A tableState is what a table has besides its name.
type tableState struct {
	dormant bool // its chains see no packets
	handle  uint64
}

// tables returns all tables.
func (r *Rules) tables() (map[simulate.Table]tableState, error) {
	out := map[simulate.Table]tableState{}
	err := r.get(unix.NFT_MSG_GETTABLE, netlink.Dump, unix.NFPROTO_UNSPEC, nil, func(d *attr.Decoder, m message) {
		t := simulate.Table{Family: families[m.family]}
		var state tableState
		for kind, value := range d.Attributes(m.attributes) {
			switch kind {
			case unix.NFTA_TABLE_NAME:
				t.Name = attr.String(value)
			case unix.NFTA_TABLE_FLAGS:
				state.dormant = d.Uint32(value)&unix.NFT_TABLE_F_DORMANT != 0
			case tableHandle:
				state.handle = d.Uint64(value)
			}
		}
		out[t] = state
	})
	return out, err
}

// decodeBaseChain decodes a chain. It reports false if the chain is not at a hook that IP
// packets pass.
func decodeBaseChain(d *attr.Decoder, m message) (b simulate.BaseChain, hooked bool) {
	t := simulate.Table{Family: families[m.family]}
	number := uint32(0)
	for kind, value := range d.Attributes(m.attributes) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			t.Name = attr.String(value)
		case unix.NFTA_CHAIN_NAME:
			b.Chain.Name = attr.String(value)
		case unix.NFTA_CHAIN_TYPE:
			b.Type = attr.String(value)
		case unix.NFTA_CHAIN_POLICY:
			b.PolicyDrop = d.Uint32(value) == policyDrop
		case unix.NFTA_CHAIN_HOOK:
			hooked = true
			number = decodeHook(d, value, &b)
		}
	}
	b.Chain.Table = t
	b.Hook = simulate.Hook(number)
	if t.Family == "netdev" {
		b.Hook = simulate.HookIngress
		hooked = hooked && number == netdevIngress
	}
	return b, hooked && t.Family != "" && b.Hook <= simulate.HookIngress
}

// decodeHook decodes priority and devices, and returns the number of the hook.
func decodeHook(d *attr.Decoder, hook []byte, b *simulate.BaseChain) (number uint32) {
	for kind, value := range d.Attributes(hook) {
		switch kind {
		case unix.NFTA_HOOK_HOOKNUM:
			number = d.Uint32(value)
		case unix.NFTA_HOOK_PRIORITY:
			b.Priority = int32(d.Uint32(value))
		case hookDevices: // a single one, of NFTA_HOOK_DEV, is here, too
			for kind, name := range d.Attributes(value) {
				switch kind {
				case deviceName:
					b.Devices = append(b.Devices, attr.String(name))
				case devicePrefix:
					b.Devices = append(b.Devices, attr.String(name)+"*")
				}
			}
		}
	}
	return number
}

const (
	policyDrop    = 0 // NF_DROP
	netdevIngress = 0 // NF_NETDEV_INGRESS

	hookDevices  = 4 // NFTA_HOOK_DEVS
	deviceName   = 1 // NFTA_DEVICE_NAME
	devicePrefix = 2 // NFTA_DEVICE_PREFIX, Linux 6.17
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

func (r *Rules) readRules(c simulate.Chain) ([]simulate.Rule, error) {
	list, _, err := r.readRulesWithout(c, "")
	return list, err
}

// readRulesWithout reads the rules of a chain but those with a comment, unless that is empty.
func (r *Rules) readRulesWithout(c simulate.Chain, comment string) (list []simulate.Rule, skipped int, err error) {
	err = r.get(unix.NFT_MSG_GETRULE, netlink.Dump, familyNumber(c.Table.Family), func(e *attr.Encoder) {
		e.String(unix.NFTA_RULE_TABLE, c.Table.Name)
		e.String(unix.NFTA_RULE_CHAIN, c.Name)
	}, func(d *attr.Decoder, m message) {
		userdata := d.Find(m.attributes, unix.NFTA_RULE_USERDATA)
		if comment != "" && attr.String(attr.Userdata(userdata, attr.CommentTag)) == comment {
			skipped++
			return
		}
		list = append(list, decodeRule(d, m))
	})
	return list, skipped, err
}
