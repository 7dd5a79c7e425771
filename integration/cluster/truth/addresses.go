package truth

import (
	"fmt"
	"net"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// serveNodePorts puts into tables which addresses of the node serve node ports:
// [sync.Build] knows the Node object, and not what interfaces have.
func (t *Truth) serveNodePorts(tables nft.Tables, events []sync.Event) error {
	all, err := t.interfaces()
	if err != nil {
		return err
	}
	var primary [len(model.Families)]netip.Addr
	for _, e := range events {
		if node, ok := e.(sync.SetNode); ok {
			primary = node.Node.Addrs
		}
	}
	serving := map[model.Family][]nft.Element{}
	for _, a := range t.Config.NodePorts.Select(all, primary) {
		f := model.FamilyOf(a)
		serving[f] = append(serving[f], nft.Element{Key: nft.Key{Addr: a}})
	}
	for f, table := range tables {
		name := nft.SetID{Family: model.Family(f), Kind: nft.SetNodeIPs}.Name()
		set := table.Sets[name]
		set.Elements = serving[model.Family(f)]
		table.Sets[name] = set
	}
	return nil
}

func (t *Truth) interfaces() (out []netip.Addr, err error) {
	var all []net.Addr
	err = t.Host.Do(func() (err error) { all, err = net.InterfaceAddrs(); return err })
	if err != nil {
		return nil, fmt.Errorf("look up the addresses of %s: %w", t.Host, err)
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			return nil, fmt.Errorf("read an address of %s: %w", t.Host, err)
		}
		out = append(out, p.Addr())
	}
	return out, nil
}
