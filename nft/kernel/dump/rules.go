package dump

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
)

// Rules reads what packets meet. It is not safe for concurrent use.
type Rules struct {
	*Reader
	generation uint32
	constants  *Constants // nil keeps none
	cache
}

// cache is what was read at a generation.
type cache struct {
	baseChains []simulate.BaseChain // nil until it was read
	rules      map[simulate.Chain][]simulate.Rule
	sets       map[setName]*set
}

// OpenRules opens a socket to read from; see [Open].
func OpenRules(netNS int) (*Rules, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	return NewRules(conn), nil
}

// NewRules returns rules that share a socket.
func NewRules(conn *netlink.Conn) *Rules { return &Rules{Reader: NewReader(conn), cache: newCache()} }

func newCache() cache {
	return cache{rules: map[simulate.Chain][]simulate.Rule{}, sets: map[setName]*set{}}
}

// KeepConstants makes tables of [Rules.Table] use and fill a store.
func (r *Rules) KeepConstants(c *Constants) { r.constants = c }

// maxTries is how often something is read because other programs changed it meanwhile.
const maxTries = 5

// Snapshot calls fn, which reads from r, again until nf_tables did not change meanwhile. So
// all that fn has read existed at one moment, except for what packets change.
func (r *Rules) Snapshot(fn func() error) error {
	var err error
	for range maxTries {
		before, genErr := socket.Generation(r.conn)
		if genErr != nil {
			return permission(genErr)
		}
		if before != r.generation {
			r.generation, r.cache = before, newCache()
		}
		err = fn()
		after, genErr := socket.Generation(r.conn)
		if genErr != nil || after == before {
			return errors.Join(err, permission(genErr))
		}
	}
	return errors.Join(err, errors.New("read nf_tables: other programs change it too fast"))
}

// BaseChains implements [simulate.Rules].
func (r *Rules) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	if r.baseChains == nil {
		list, err := r.readBaseChains()
		if err != nil {
			return nil, err
		}
		r.baseChains = list
	}
	return chainsOf(f, r.baseChains), nil
}

func (r *Rules) readBaseChains() ([]simulate.BaseChain, error) {
	tables, err := r.Tables("")
	if err != nil {
		return nil, err
	}
	dormant := map[simulate.Table]bool{}
	for _, t := range tables {
		dormant[simulate.Table{Family: t.Family, Name: t.Name}] = t.Dormant
	}
	chains, err := r.Chains(simulate.Table{})
	list := []simulate.BaseChain{}
	for i := range chains {
		if b, hooked := chains[i].base(); hooked && !dormant[b.Chain.Table] {
			list = append(list, b)
		}
	}
	return list, err
}

// base returns the chain as one at a hook that IP packets pass; false if it is none.
func (c *Chain) base() (simulate.BaseChain, bool) {
	number := slices.Index(hooks[:], c.Hook)
	seesIP := c.Table.Family == "netdev" || slices.Contains(ipFamilies[:], c.Table.Family) || c.Table.Family == "inet"
	return simulate.BaseChain{
		Chain: simulate.Chain{Table: c.Table, Name: c.Name}, Type: c.Type, Hook: simulate.Hook(max(number, 0)),
		Priority: c.Priority, PolicyDrop: c.Drop, Devices: c.Devices,
	}, seesIP && number >= 0
}

var ipFamilies = [...]string{model.IPv4: "ip", model.IPv6: "ip6"}

// chainsOf returns the chains that see packets of a family.
func chainsOf(f model.Family, all []simulate.BaseChain) (out []simulate.BaseChain) {
	for _, b := range all {
		switch b.Chain.Table.Family {
		case "inet", "netdev", ipFamilies[f]:
			out = append(out, b)
		}
	}
	return out
}

// Rules implements [simulate.Rules].
func (r *Rules) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	if list, ok := r.rules[c]; ok {
		return list, nil
	}
	list, err := r.readRules(c)
	if err == nil {
		r.rules[c] = list
	}
	return list, err
}

func (r *Rules) readRules(c simulate.Chain) (list []simulate.Rule, err error) {
	err = r.EachRule(c, func(rule Rule) bool {
		list = append(list, rule.Rule)
		return true
	})
	return list, err
}

// RuleText returns a rule in the syntax of nft, by its table ("inet filter"), chain and handle;
// empty if there is none. The network namespace is that of the calling thread.
func RuleText(table, chain string, handle uint64) (text string, err error) {
	family, name, _ := strings.Cut(table, " ")
	r, err := Open(0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	rule, err := r.Rule(simulate.Chain{Table: simulate.Table{Family: family, Name: name}, Name: chain}, handle)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return rule.Text(), err
}
