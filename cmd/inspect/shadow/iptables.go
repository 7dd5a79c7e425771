package shadow

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/simulate"
)

// IPTables reads the rules of kube-proxy's iptables mode in nf_tables (iptables-nft).
type IPTables struct{ Kernel *dump.Rules }

// Mode implements [ruleSource].
func (IPTables) Mode() string { return "iptables" }

// iptablesTables are the tables in which kube-proxy has rules with an effect.
var iptablesTables = [...]string{"nat", "filter"}

// Open implements [ruleSource].
func (s IPTables) Open(f model.Family) (*Rules, error) {
	r := &iptablesRules{family: f}
	for _, name := range iptablesTables {
		table := simulate.Table{Family: nft.FamilyName(f), Name: name}
		t, err := s.Kernel.Table(table, func(chain string) bool { return !isOfService(chain) }, kubeproxy.SuspendComment)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r.tables = append(r.tables, readTable{table, t})
		r.forget = append(r.forget, t.Forget)
		r.suspended = r.suspended || t.Dormant
	}
	return r.open()
}

// isOfService reports whether a chain belongs to one Service or endpoint.
func isOfService(chain string) bool {
	for _, begin := range [...]string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-FW-", "KUBE-EXT-"} {
		if strings.HasPrefix(chain, begin) {
			return true
		}
	}
	return false
}

// A readTable is a table of iptables.
type readTable struct {
	name  simulate.Table
	rules simulate.Rules
}

// iptablesRules are the rules of kube-proxy in tables that other programs use, too: of the
// built-in chains only the jumps to its own chains count, and no policy.
type iptablesRules struct {
	family model.Family
	tables []readTable
	forget []func()
	// kept are the chains that belong to no Service, without what is not kube-proxy's.
	kept      map[simulate.Chain][]simulate.Rule
	suspended bool
	sources   []netip.Prefix // in rules that were read since the last Forget
}

// open reads the chains that belong to no Service. The error is [fs.ErrNotExist] if there is
// no chain of kube-proxy.
func (r *iptablesRules) open() (*Rules, error) {
	r.kept = map[simulate.Chain][]simulate.Rule{}
	if len(r.tables) == 0 {
		return nil, fmt.Errorf("tables of iptables: %w", fs.ErrNotExist)
	}
	services, err := r.Rules(simulate.Chain{Table: r.tables[0].name, Name: "KUBE-SERVICES"})
	if err == nil && len(services) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("chain KUBE-SERVICES: %w", err)
	}
	frontends, err := r.frontends()
	if err != nil {
		return nil, err
	}
	return &Rules{
		Rules: r, Dormant: r.suspended, Frontends: frontends,
		Bounds: func() []netip.Addr { return atBounds(r.sources) },
		Forget: func() {
			r.sources = nil
			for _, forget := range r.forget {
				forget()
			}
		},
	}, nil
}

// BaseChains implements [simulate.Rules].
func (r *iptablesRules) BaseChains(f model.Family) (out []simulate.BaseChain, _ error) {
	for _, t := range r.tables {
		list, err := t.rules.BaseChains(f)
		if err != nil {
			return nil, err
		}
		for _, b := range list {
			if b.Chain.Table == t.name {
				b.PolicyDrop = false
				out = append(out, b)
			}
		}
	}
	return out, nil
}

// Rules implements [simulate.Rules].
func (r *iptablesRules) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	if list, ok := r.kept[c]; ok {
		return list, nil
	}
	for _, t := range r.tables {
		if t.name != c.Table {
			continue
		}
		list, err := t.rules.Rules(c)
		if err != nil {
			return nil, err
		}
		if isOfService(c.Name) {
			r.noteSources(c, list)
			return list, nil
		}
		r.kept[c] = r.own(c, list)
		return r.kept[c], nil
	}
	return nil, fs.ErrNotExist
}

// Set implements [simulate.Rules]: kube-proxy's rules of iptables use none.
func (*iptablesRules) Set(simulate.Table, string) (*simulate.Set, error) { return nil, fs.ErrNotExist }

// own returns the rules of a chain that are kube-proxy's. A rule that kube-vmap has put in
// front of a chain, to suspend it, is skipped.
func (r *iptablesRules) own(c simulate.Chain, list []simulate.Rule) []simulate.Rule {
	if strings.HasPrefix(c.Name, "KUBE-") {
		if len(list) > 0 && list[0].Comment() == kubeproxy.SuspendComment {
			r.suspended = true
			return list[1:]
		}
		return list
	}
	var out []simulate.Rule
	for _, rule := range list {
		if kubeproxy.IsHooked(c.Table.Name, rule.Jump()) {
			out = append(out, rule)
		}
	}
	return out
}

// frontends returns the destinations of rules of all Services, each once.
func (r *iptablesRules) frontends() (out []Frontend, _ error) {
	seen := map[model.Match]bool{}
	for _, t := range r.tables {
		for _, name := range [...]string{"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS"} {
			if t.name.Name == "filter" && name == "KUBE-NODEPORTS" {
				continue // health check node ports
			}
			list, err := r.Rules(simulate.Chain{Table: t.name, Name: name})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			for _, rule := range list {
				to := simulate.RequiredDestination(rule, r.family)
				m := model.Match{Family: r.family, Addr: to.Addr, Protocol: to.Protocol, Port: to.Port}
				if m.Port != 0 && !seen[m] {
					seen[m] = true
					// "default/web:http cluster IP"
					service, _, _ := strings.Cut(rule.Comment(), " ")
					out = append(out, Frontend{m, service})
				}
			}
		}
	}
	return out, nil
}

// noteSources notes the source ranges in rules of a load balancer.
func (r *iptablesRules) noteSources(c simulate.Chain, list []simulate.Rule) {
	if !strings.HasPrefix(c.Name, "KUBE-FW-") {
		return
	}
	for _, rule := range list {
		if p := simulate.RequiredSource(rule, r.family); p.IsValid() {
			r.sources = append(r.sources, p)
		}
	}
}
