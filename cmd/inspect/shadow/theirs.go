package shadow

import (
	"io/fs"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/simulate"
)

// sources returns the sources of rules that are tried, in this order.
func sources(k *dump.Rules) []ruleSource { return []ruleSource{NFTables{k}, IPTables{k}} }

// A RuleSource reads the rules of the other proxy.
type ruleSource interface {
	// Mode is the name of the mode of kube-proxy that writes such rules.
	Mode() string
	// Open reads what a round needs of the rules of a family. The error is
	// [fs.ErrNotExist] if there are none.
	Open(model.Family) (*Rules, error)
}

// Rules are the rules of the other proxy for one family, during one round.
type Rules struct {
	simulate.Rules
	// Dormant reports whether the rules exist, but see no packets now: the table has that
	// flag, or kube-vmap has suspended them. They are simulated as if they did.
	Dormant bool
	// Frontends are the destinations that the rules know, each once.
	Frontends []Frontend
	// Bounds returns the first and last addresses of source ranges in the rules that were
	// read since the last Forget, and those next to them.
	Bounds func() []netip.Addr
	// Forget drops what was read of one Service.
	Forget func()
}

// noRules returns the rules of a proxy that does not serve a family.
func noRules() *Rules {
	return &Rules{Rules: emptyRules{}, Bounds: func() []netip.Addr { return nil }, Forget: func() {}}
}

// emptyRules has no chains.
type emptyRules struct{}

// BaseChains implements [simulate.Rules].
func (emptyRules) BaseChains(model.Family) ([]simulate.BaseChain, error) { return nil, nil }

// Rules implements [simulate.Rules].
func (emptyRules) Rules(simulate.Chain) ([]simulate.Rule, error) { return nil, fs.ErrNotExist }

// Set implements [simulate.Rules].
func (emptyRules) Set(simulate.Table, string) (*simulate.Set, error) { return nil, fs.ErrNotExist }

// A Frontend is a destination of the other proxy, and the name of its Service as far as
// the rules have it.
type Frontend struct {
	Match   model.Match
	Service string
}
