package nft

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"

	"kube-vmap/model"
)

// The types as another library knows them, which took them from nft's sources.
var knownTypes = map[Field][len(model.Families)]nftables.SetDatatype{
	FieldSource:              {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldDestination:         {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldProtocol:            {nftables.TypeInetProto, nftables.TypeInetProto},
	FieldPort:                {nftables.TypeInetService, nftables.TypeInetService},
	FieldPick:                {nftables.TypeMark, nftables.TypeMark},
	FieldClient:              {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldOriginalDestination: {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldOriginalPort:        {nftables.TypeInetService, nftables.TypeInetService},
	FieldOriginalSource:      {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldOriginalSourcePort:  {nftables.TypeInetService, nftables.TypeInetService},
	FieldNumber:              {nftables.TypeClassID, nftables.TypeClassID},
}

func TestSetShapes(t *testing.T) {
	for kind := range setKinds {
		for _, f := range model.Families {
			id := SetID{Family: f, Kind: kind}
			t.Run(fmt.Sprint(families[f].name, " ", setSchema[kind].name), func(t *testing.T) {
				var fields []nftables.SetDatatype
				for _, part := range id.Layout().Key {
					fields = append(fields, knownTypes[part][f])
				}
				key := nftables.MustConcatSetType(fields...)
				if len(fields) == 1 {
					key = fields[0]
				}
				data := nftables.MustConcatSetType(knownTypes[FieldDestination][f], nftables.TypeInetService)
				shape := id.Shape(384)
				if shape.KeyType != key.GetNFTMagic() || shape.KeyLen != key.Bytes {
					t.Errorf("keys are of type %d, length %d; want %d, %d", shape.KeyType, shape.KeyLen, key.GetNFTMagic(), key.Bytes)
				}
				switch id.Layout().Content {
				case ContentNone:
					data = nftables.SetDatatype{}
				case ContentVerdict:
					data = nftables.TypeVerdict
					data.SetNFTMagic(typeVerdict.number) // what the kernel calls it
					data.Bytes = 0
				case ContentAddress:
					data = knownTypes[FieldDestination][f]
				case ContentPort:
					data = nftables.TypeInetService
				case ContentNumber:
					data = nftables.TypeClassID
				case ContentEndpoint:
				}
				if shape.DataType != data.GetNFTMagic() || shape.DataLen != data.Bytes {
					t.Errorf("data are of type %d, length %d; want %d, %d", shape.DataType, shape.DataLen, data.GetNFTMagic(), data.Bytes)
				}
			})
		}
	}
}

// TestSchemaIsDocumented compares the tables of chains and sets in doc.go with the schema. What
// follows a row there, who fills it or what it does, is text.
func TestSchemaIsDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for k := range chainKinds {
		name, hook := chainSchema[k].name, "-"
		if h := hooks[k]; h != nil {
			hook = fmt.Sprintf("%s %s %s", h.chainType, h.name, h.priorityName)
		}
		if k == ChainBalance {
			name = methodSchema[pickRandom].name
		}
		if k >= baseChains && !k.single() {
			name += "-N"
		}
		rows = append(rows, fmt.Sprintf("%-24s %s", name, hook))
	}
	words := [fields]string{
		FieldSource: "saddr", FieldDestination: "daddr", FieldProtocol: "proto", FieldPort: "dport", FieldPick: "pick",
		FieldClient: "client", FieldOriginalDestination: "original daddr", FieldOriginalPort: "original dport",
		FieldNumber: "number", FieldOriginalSource: "original saddr", FieldOriginalSourcePort: "original sport",
	}
	content := map[Content]string{
		ContentVerdict: " : verdict", ContentEndpoint: " : address . port", ContentAddress: " : address",
		ContentPort: " : port", ContentNumber: " : number",
	}
	for k := range setKinds {
		name := setSchema[k].name
		if k.slotted() {
			name += "-N"
		}
		var key []string
		for _, f := range setSchema[k].layout.Key {
			key = append(key, words[f])
		}
		rows = append(rows, fmt.Sprintf("%-24s %s", name, strings.Join(key, " . ")+content[setSchema[k].layout.Content]))
	}
	rest := string(text)
	for _, row := range rows {
		_, after, found := strings.Cut(rest, "//\t"+row+"  ")
		if !found {
			t.Errorf("doc.go has no row, or not here:\n//\t%s  ...", row)
			continue
		}
		if line, _, _ := strings.Cut(after, "\n"); strings.TrimSpace(line) == "" {
			t.Errorf("%s: nothing says what it is for", row)
		}
		rest = after
	}
}

// TestSharedObjectsAreDocumented checks that docs/security.md says, for each kind of set,
// chain and counter, why a tenant cannot use it up.
func TestSharedObjectsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## What tenants share\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/security.md has no section of what tenants share")
	}
	var names []string
	for c := range Counters {
		names = append(names, c.String())
	}
	for _, kind := range setSchema {
		names = append(names, kind.name)
	}
	for _, kind := range chainSchema {
		if kind.name != "" {
			names = append(names, kind.name)
		}
	}
	for _, m := range methodSchema {
		names = append(names, m.name)
	}
	for _, name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/security.md does not say what bounds %s", name)
		}
	}
}

// withEndpoints is the change to one Service of n endpoints in each family.
func withEndpoints(n int) (c Change) {
	for _, f := range model.Families {
		one := weightedFrontend(f, model.TCP, model.SchedulerRandom, 0, slices.Repeat([]uint16{1}, n)...)
		c.Set = append(c.Set, one)
	}
	return c
}

// TestDeletedReaderOfGrownMapGetsNoRules has the only reader of a map replaced while the map
// outgrows its size.
func TestDeletedReaderOfGrownMapGetsNoRules(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, withEndpoints(300))
	batch := rules.Plan(withEndpoints(900)).Batch
	for _, f := range model.Families {
		grown, removed := Op(DeleteSet{f, "endpoints-many"}), Op(DeleteChain{f, "lb-300"})
		if !slices.ContainsFunc(batch, func(op Op) bool { return op.String() == grown.String() }) {
			t.Errorf("the batch lacks %q", grown)
		}
		if !slices.ContainsFunc(batch, func(op Op) bool { return op.String() == removed.String() }) {
			t.Errorf("the batch lacks %q", removed)
		}
	}
	for _, op := range batch {
		if rule, adds := op.(AddRule); adds && rule.Chain.Name() == "lb-300" {
			t.Errorf("a deleted chain gets the rule %q", rule.Rule)
		}
	}
}

// TestFullSetsStayMarkedUntilRebuilt commits a plan that does not touch them, as the first part of a
// change that is divided.
func TestFullSetsStayMarkedUntilRebuilt(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, withEndpoints(300))
	for _, f := range model.Families {
		rules.MarkFull(SetID{Family: f, Kind: SetEndpointsMany})
	}
	rules.Commit(rules.Plan(Change{NodeAddrs: &[]netip.Addr{netip.MustParseAddr("192.0.2.1")}}))
	for _, want := range []bool{true, false} {
		p := rules.Plan(withEndpoints(301))
		for _, f := range model.Families {
			rebuilt := Op(DeleteSet{f, "endpoints-many"})
			if got := slices.ContainsFunc(p.Batch, func(op Op) bool { return op.String() == rebuilt.String() }); got != want {
				t.Errorf("%q is in the batch: %t, want %t", rebuilt, got, want)
			}
		}
		rules.Commit(p)
		rules.Commit(rules.Plan(withEndpoints(300)))
	}
}
