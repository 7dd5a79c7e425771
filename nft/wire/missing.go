package wire

import (
	"fmt"

	"kube-vmap/nft"
)

// options are the kernel's build options for what the rule set uses, besides nf_tables
// itself.
var options = map[string]string{
	"counter": "CONFIG_NFT_COUNTER",
	"ct":      "CONFIG_NFT_CT",
	"fib":     "CONFIG_NFT_FIB",
	"hash":    "CONFIG_NFT_HASH",
	"limit":   "CONFIG_NFT_LIMIT",
	"masq":    "CONFIG_NFT_MASQ",
	"nat":     "CONFIG_NFT_NAT",
	"numgen":  "CONFIG_NFT_NUMGEN",
	"reject":  "CONFIG_NFT_REJECT",
	"ip":      "CONFIG_NF_TABLES_IPV4",
	"ip6":     "CONFIG_NF_TABLES_IPV6",
	"natbase": "CONFIG_NF_NAT",
}

// Missing describes in one line what a kernel lacks that refused [nft.Sample] with this
// error.
func (e *Error) Missing() string {
	named := func(what, key string) string {
		if option := options[key]; option != "" {
			return fmt.Sprintf("%s (%s)", what, option)
		}
		return what
	}
	switch op := e.Op.(type) {
	case nil:
		return "nf_tables (CONFIG_NF_TABLES)"
	case nft.AddTable:
		name := nft.FamilyName(op.Family)
		return named("nf_tables for family "+name, name)
	case nft.AddChain:
		if op.Chain.Hook().Type == "nat" {
			return named("chains of type nat", "natbase")
		}
	case nft.DeleteChain:
		return "what lets a chain go in one transaction with all that leads there (fix 628bd3e49cba of Linux 6.4)"
	case nft.AddRule:
		if e.Expression != "" {
			return named("the nf_tables expression "+e.Expression, e.Expression)
		}
	}
	return "what this takes: " + e.Error()
}
