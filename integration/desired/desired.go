// Package desired computes the rules that kube-vmap must program on node-1 of a lab for
// a folder of manifests, to compare them with those in the kernel.
package desired

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	settings "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/source/manifests"
)

// Rules returns the configuration for kube-vmap's flags, and the change that programs
// the manifests from nothing.
func Rules(t testing.TB, dir string, flags ...string) (nft.Config, nft.Change) {
	t.Helper()
	events, errs := manifests.Load(dir, "node-1")
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	config := configOf(flags)
	for _, e := range events {
		if node, is := e.(sync.SetNode); is { // which has these addresses
			config.PingTo = node.Node.Addrs
		}
	}
	options := model.Options{MasqueradeAll: slices.Contains(flags, "--masquerade-all")}
	for _, f := range model.Families {
		options.DetectsPods[f] = config.DetectsPods(f)
	}
	return config, changeOf(options, events)
}

func configOf(flags []string) nft.Config {
	config := nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark, DropInvalid: settings.CallsOldDataInvalid(),
		CountConnections: true, PassiveHealth: true,
	}
	for _, flag := range flags {
		switch name, value, _ := strings.Cut(flag, "="); name {
		case "--cluster-cidr":
			for i, text := range strings.Split(value, ",") {
				config.Pods[i] = netip.MustParsePrefix(text)
			}
		case "--pod-interface-name-prefix", "--pod-bridge-interface":
			config.PodInterface = nft.Interface{Name: value, Prefix: name == "--pod-interface-name-prefix"}
		case "--detect-local-mode":
			if value == "NodeCIDR" {
				config.Pods = lab.PodRanges
			}
		}
	}
	return config
}

func changeOf(o model.Options, events []sync.Event) nft.Change {
	services := model.NewServiceMap(o, model.Node{Name: "node-1"})
	cidrs := []netip.Prefix{}
	for _, e := range events {
		switch e := e.(type) {
		case sync.SetService:
			services.SetService(e.Service)
		case sync.SetSlice:
			services.SetSlice(e.Slice)
		case sync.SetNode:
			services.SetNode(e.Node)
		case sync.SetServiceCIDRs:
			cidrs = e.CIDRs
		}
	}
	services.Changes()
	return nft.Change{Set: services.Frontends(), ServiceCIDRs: &cidrs}
}
