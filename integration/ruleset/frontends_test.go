package ruleset

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// world is all that a rule set is made from.
type world struct {
	config    nft.Config
	cidrs     []netip.Prefix
	frontends map[model.Match]model.Frontend
}

func newWorld() *world {
	return &world{
		config:    nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark},
		frontends: map[model.Match]model.Frontend{},
	}
}

func (w *world) clone() *world {
	return &world{w.config, slices.Clone(w.cidrs), maps.Clone(w.frontends)}
}

// all is the change from nothing to the world.
func (w *world) all() nft.Change {
	cidrs := slices.Clone(w.cidrs)
	set := slices.SortedFunc(maps.Values(w.frontends), func(a, b model.Frontend) int { return a.Match.Compare(b.Match) })
	return nft.Change{Set: set, ServiceCIDRs: &cidrs}
}

// to is the change from one world to another.
func (w *world) to(next *world) nft.Change {
	var c nft.Change
	for _, f := range next.all().Set {
		if old, ok := w.frontends[f.Match]; !ok || !reflect.DeepEqual(old, f) {
			c.Set = append(c.Set, f)
		}
	}
	for _, f := range w.all().Set {
		if _, stays := next.frontends[f.Match]; !stays {
			c.Gone = append(c.Gone, f.Match)
		}
	}
	if !slices.Equal(w.cidrs, next.cidrs) {
		c.ServiceCIDRs = &next.cidrs
	}
	return c
}

// parseWorld reads the text form that the package's comment describes.
func parseWorld(text string) (w *world, err error) {
	defer func() {
		// Addresses are read by functions that panic on a wrong one.
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("frontends: %v", wrong)
		}
	}()
	w = newWorld()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "pods":
			for _, p := range words[1:] {
				prefix := netip.MustParsePrefix(p)
				w.config.Pods[model.FamilyOf(prefix.Addr())] = prefix
			}
		case words[0] == "pods-from" && len(words) == 2:
			name, prefix := strings.CutSuffix(words[1], "*")
			w.config.PodInterface = nft.Interface{Name: name, Prefix: prefix}
		case words[0] == "service-cidrs":
			for _, p := range words[1:] {
				w.cidrs = append(w.cidrs, netip.MustParsePrefix(p))
			}
		default:
			if err := w.parseFrontends(words); err != nil {
				return nil, fmt.Errorf("frontends: %s: %w", strings.TrimSpace(line), err)
			}
		}
	}
	return w, nil
}

var kinds = map[string]model.Kind{
	"clusterip": model.ClusterIP, "nodeport": model.NodePort,
	"externalip": model.ExternalIP, "loadbalancerip": model.LoadBalancerIP,
}

var masquerades = map[string]model.Masquerade{
	"never": model.MasqueradeNever, "offpod": model.MasqueradeOffPod, "always": model.MasqueradeAlways,
}

// parseFrontends reads a line, which is one frontend for each protocol.
func (w *world) parseFrontends(words []string) error {
	if len(words) < 4 {
		return fmt.Errorf("%d words are too few", len(words))
	}
	var f model.Frontend
	var ok bool
	if f.Kind, ok = kinds[words[0]]; !ok {
		return fmt.Errorf("no kind of frontend is called %s", words[0])
	}
	at, protocols, _ := strings.Cut(words[1], "/")
	f.Match.Addr = netip.MustParseAddrPort(at).Addr()
	f.Match.Port = netip.MustParseAddrPort(at).Port()
	f.Match.Family = model.FamilyOf(f.Match.Addr)
	full, port, _ := strings.Cut(words[2], ":")
	f.Service.Port = port
	f.Service.Namespace, f.Service.Name, _ = strings.Cut(full, "/")
	if err := parseTreatment(&f, words[3:]); err != nil {
		return err
	}
	for protocol := range strings.SplitSeq(protocols, "+") {
		i := slices.IndexFunc(model.Protocols[:], func(p model.Protocol) bool { return p.String() == protocol })
		if i < 0 {
			return fmt.Errorf("no protocol is called %s", protocol)
		}
		f.Match.Protocol = model.Protocols[i]
		f.Service.Protocol = f.Match.Protocol
		w.frontends[f.Match] = f
	}
	return nil
}

// parseTreatment reads what happens to connections to a frontend.
func parseTreatment(f *model.Frontend, words []string) error {
	var ok bool
	switch words[0] {
	case "reject":
		f.Verdict = model.Reject
		return nil
	case "drop":
		f.Verdict = model.Drop
		return nil
	}
	if f.Masquerade, ok = masquerades[words[0]]; !ok {
		return fmt.Errorf("no treatment is called %s", words[0])
	}
	words = words[1:]
	if list, ok := strings.CutPrefix(words[0], "hairpin="); ok {
		for a := range strings.SplitSeq(list, ",") {
			f.Hairpin = append(f.Hairpin, netip.MustParseAddr(a))
		}
		words = words[1:]
	}
	if len(words) < 2 || words[0] != "->" {
		return fmt.Errorf("no endpoints behind an arrow")
	}
	for _, word := range words[1:] {
		if times, ok := strings.CutPrefix(word, "x"); ok {
			n, err := strconv.Atoi(times)
			if err != nil {
				return err
			}
			f.Endpoints = behind(f.Endpoints, n-1)
			continue
		}
		f.Endpoints = append(f.Endpoints, netip.MustParseAddrPort(word))
	}
	slices.SortFunc(f.Endpoints, netip.AddrPort.Compare)
	return nil
}

// behind appends n endpoints on the addresses that follow the last one.
func behind(endpoints []netip.AddrPort, n int) []netip.AddrPort {
	last := endpoints[len(endpoints)-1]
	for range n {
		last = netip.AddrPortFrom(last.Addr().Next(), last.Port())
		endpoints = append(endpoints, last)
	}
	return endpoints
}
