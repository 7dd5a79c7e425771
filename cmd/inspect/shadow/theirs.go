package shadow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/simulate"
)

// A mode is a mode of kube-proxy, with the tables in which it has rules with an effect, and what
// shows that a chain belongs to one Service or endpoint.
type mode struct {
	name    string
	tables  []string
	service *regexp.Regexp
}

// modes are tried in this order. Rules of iptables are those of iptables-nft.
var modes = [...]mode{
	{"nftables", []string{"kube-proxy"}, regexp.MustCompile(`/`)},
	{modeIPTables, []string{"nat", "filter"}, regexp.MustCompile(`^KUBE-(SVC|SVL|SEP|FW|EXT)-`)},
}

const modeIPTables = "iptables"

// kubeProxyRules are the rules of kube-proxy for one family, during one round. Of tables of iptables,
// which other programs use, too, the built-in chains have only the jumps to kube-proxy's own, and
// no policy.
type kubeProxyRules struct {
	mode   *mode
	family model.Family
	tables []kubeProxyTable // none if kube-proxy does not serve the family
	// dormant reports whether the rules exist, but see no packets now: the table has that flag,
	// or kube-vmap has suspended them. They are simulated as if they did.
	dormant   bool
	frontends []frontend                         // the destinations that the rules know, each once
	own       map[simulate.Chain][]simulate.Rule // of built-in chains
}

type kubeProxyTable struct {
	*dump.TableRules

	name simulate.Table
}

// openTheirs reads what a round needs of the rules of a family. The error is [fs.ErrNotExist] if
// there are none.
func openTheirs(k *dump.Reader, m *mode, f model.Family) (*kubeProxyRules, error) {
	r := &kubeProxyRules{mode: m, family: f, own: map[simulate.Chain][]simulate.Rule{}}
	for _, name := range m.tables {
		t := kubeProxyTable{name: simulate.Table{Family: nft.FamilyName(f), Name: name}}
		isStatic := func(chain string) bool { return !m.service.MatchString(chain) }
		var err error
		if t.TableRules, err = k.Table(t.name, isStatic, kubeproxy.SuspendComment); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		r.tables, r.dormant = append(r.tables, t), r.dormant || t.Dormant
	}
	read := r.readMaps
	if m.name == modeIPTables {
		read = r.readChains
	}
	found, err := read()
	if err == nil && !found {
		r.tables, r.dormant, r.frontends = nil, false, nil
		err = fs.ErrNotExist
	}
	return r, err
}

// readMaps reads the keys of the maps of nftables mode. It returns false if there is none of them:
// then the table is only a marker for programs that look for kube-proxy.
func (r *kubeProxyRules) readMaps() (found bool, _ error) {
	for _, t := range r.tables {
		for _, m := range [...]string{"service-ips", "service-nodeports", "no-endpoint-services", "no-endpoint-nodeports"} {
			err := t.Keys(m, func(key []byte, e simulate.Element) {
				if match, ok := matchOf(r.family, key); ok {
					r.add(match, serviceOf(e))
				}
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return found, err
			}
			found = found || err == nil
		}
	}
	return found, nil
}

// readChains reads the destinations of the rules of iptables mode. It returns false if kube-proxy
// has none.
func (r *kubeProxyRules) readChains() (found bool, _ error) {
	for _, t := range r.tables {
		for _, name := range [...]string{"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS"} {
			if t.name.Name == "filter" && name == "KUBE-NODEPORTS" {
				continue // health check node ports
			}
			list, err := r.Rules(simulate.Chain{Table: t.name, Name: name})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return found, fmt.Errorf("chain %s: %w", name, err)
			}
			found = found || len(list) > 0 && name == "KUBE-SERVICES"
			for _, rule := range list {
				to := simulate.RequiredDestination(rule, r.family)
				service, _, _ := strings.Cut(rule.Comment(), " ") // "default/web:http cluster IP"
				r.add(model.Match{Family: r.family, Addr: to.Addr, Protocol: to.Protocol, Port: to.Port}, service)
			}
		}
	}
	return found, nil
}

func (r *kubeProxyRules) add(m model.Match, service string) {
	if m.Port != 0 {
		r.frontends = append(r.frontends, frontend{match: m, service: service})
	}
}

// forget drops what was read of one Service, so that memory does not grow with their number.
func (r *kubeProxyRules) forget() {
	for _, t := range r.tables {
		t.Forget()
	}
}

// BaseChains implements [simulate.Rules].
func (r *kubeProxyRules) BaseChains(f model.Family) (out []simulate.BaseChain, _ error) {
	for _, t := range r.tables {
		list, err := t.TableRules.BaseChains(f)
		if err != nil {
			return nil, err
		}
		for _, b := range list {
			b.Drop = b.Drop && r.mode.name != modeIPTables
			out = append(out, b)
		}
	}
	return out, nil
}

func (r *kubeProxyRules) table(name simulate.Table) *kubeProxyTable {
	for i := range r.tables {
		if r.tables[i].name == name {
			return &r.tables[i]
		}
	}
	return nil
}

// Set implements [simulate.Rules].
func (r *kubeProxyRules) Set(name simulate.Table, set string) (*simulate.Set, error) {
	t := r.table(name)
	if t == nil {
		return nil, fs.ErrNotExist
	}
	return t.Set(name, set)
}

// Rules implements [simulate.Rules].
func (r *kubeProxyRules) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	if list, ok := r.own[c]; ok {
		return list, nil
	}
	t := r.table(c.Table)
	if t == nil {
		return nil, fs.ErrNotExist
	}
	list, err := t.Rules(c)
	if err == nil && r.mode.name == modeIPTables && !strings.HasPrefix(c.Name, "KUBE-") {
		// A built-in chain, which other programs use, too.
		list = slices.DeleteFunc(slices.Clone(list), func(rule simulate.Rule) bool {
			return !kubeproxy.IsHooked(c.Table.Name, rule.Jump())
		})
		r.own[c] = list
	}
	return list, err
}

// matchOf decodes a key of an address, protocol and port, or of the last two.
func matchOf(f model.Family, key []byte) (m model.Match, ok bool) {
	at := len(key) - 8 // protocol and port, each padded to 4 bytes
	if at < 0 {
		return m, false
	}
	m = model.Match{Family: f, Protocol: model.Protocol(key[at]), Port: binary.BigEndian.Uint16(key[at+4:])}
	if at > 0 {
		m.Addr, ok = netip.AddrFromSlice(key[:at])
		return m, ok
	}
	return m, true
}

// chainName is the name of a chain of a Service in nftables mode: a hash, and namespace, name,
// protocol and port, cut if it is too long.
var chainName = regexp.MustCompile(`^[a-z-]+-[A-Z2-7]{8}-([^/]+)/([^/]+)/(?:tcp|udp|sctp)/(.*)$`)

func serviceOf(e simulate.Element) string {
	if e.Verdict != nil {
		if part := chainName.FindStringSubmatch(e.Verdict.Chain); part != nil {
			return strings.TrimSuffix(part[1]+"/"+part[2]+":"+part[3], ":")
		}
	}
	return e.Comment
}
