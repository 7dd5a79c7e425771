package ruleset

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// foreignTables are tables of another program, with names as near to ours as
// can be: the same in another family, and one that begins with ours.
const foreignTables = `
table inet kube-vmap {
	map services {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.1 . tcp . 53 : goto reject-chain }
	}
	set cluster-ips { type ipv4_addr; elements = { 10.96.0.1 }; }
	chain reject-chain { drop; }
	chain nat-prerouting {
		type nat hook prerouting priority dstnat;
		ip daddr . meta l4proto . th dport vmap @services
	}
}
table ip kube-vmap-2 {
	set service-cidrs { type ipv4_addr; flags interval; elements = { 10.96.0.0/16 }; }
	chain filter-input { type filter hook input priority filter; ip saddr @service-cidrs accept; }
}
table ip6 kube-proxy {
	chain services { counter packets 0 bytes 0 accept; }
}
`

// foreign is what another program has on a machine.
type foreign struct {
	m       *machine
	listing string
}

// addForeign makes the tables of another program.
func addForeign(m *machine) *foreign {
	m.t.Helper()
	installed(m.t).load(m, foreignTables)
	f := &foreign{m: m}
	f.listing = f.list()
	return f
}

// list is what nft shows of them, handles included: those change if a thing is
// deleted and made again.
func (f *foreign) list() (text string) {
	f.m.t.Helper()
	for _, table := range [][]string{{"inet", "kube-vmap"}, {"ip", "kube-vmap-2"}, {"ip6", "kube-proxy"}} {
		o := installed(f.m.t).run(f.m, "", "-a", "list", "table", table[0], table[1])
		if o.err != nil {
			f.m.t.Fatalf("list foreign table %v: %v\n%s", table, o.err, o.stderr)
		}
		text += o.stdout
	}
	return text
}

// check asserts that nothing touched them.
func (f *foreign) check() {
	f.m.t.Helper()
	if now := f.list(); now != f.listing {
		f.m.t.Errorf("a foreign table was touched:%s", firstDifference(now, f.listing))
	}
}

func TestForeignTablesAreNotChanged(t *testing.T) {
	m := newMachine(t)
	f := addForeign(m)
	w := everything(t)
	p, _ := start(m, w)
	p.turn(w.without())
	installed(t).load(m, "delete table ip kube-vmap; delete table ip6 kube-vmap")
	start(m, w)
	f.check()
}

// protected is a machine whose kernel lets tables belong to a socket, and a rule
// set that does.
func protected(t *testing.T) (*machine, nft.Config, nft.Change) {
	t.Helper()
	m := newMachine(t)
	able, err := m.kernel.SupportsOwner()
	if err != nil {
		t.Fatal(err)
	}
	if !able {
		t.Skip("this kernel does not let tables belong to a socket (Linux 6.9)")
	}
	w := services(20)
	w.config.Protect = true
	return m, w.config, w.all()
}

// adopt adopts what the kernel holds, after which nothing may be left to repair.
func (m *machine) adopt(c nft.Config, all nft.Change) (*nft.Ruleset, nft.Batch) {
	m.t.Helper()
	rules, batch := nft.Adopt(c, m.read(), all)
	m.apply(batch)
	if again := rules.Repair(m.read()); len(again) > 0 {
		m.t.Errorf("protection %t, counting %t leave\n%s", c.Protect, c.CountConnections, again)
	}
	return rules, batch
}

func TestProtectedTablesCannotBeChangedByOthers(t *testing.T) {
	m, c, all := protected(t)
	rules, _ := m.adopt(c, all)
	before := m.read()
	for _, f := range model.Families {
		table := nft.FamilyName(f) + " " + nft.TableName()
		for _, command := range []string{
			"delete table " + table, "flush table " + table, "insert rule " + table + " nat-prerouting accept",
			"flush map " + table + " services", "add chain " + table + " foreign",
		} {
			if o := installed(t).run(m, "", command); o.err == nil {
				t.Errorf("nft %s is taken", command)
			}
		}
	}
	installed(t).load(m, "flush ruleset")
	other := m.open()
	_, err := other.Apply(nft.Batch{nft.DeleteTable{Family: model.IPv6}})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another socket deletes a table: %v", err)
	}
	have, err := other.Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := have.Writable(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "belongs to another program") {
		t.Errorf("another program finds the tables writable: %v", err)
	}
	if err := m.read().Writable(); err != nil {
		t.Error(err)
	}
	if again := rules.Repair(m.read()); len(again) > 0 || len(rules.Repair(before)) > 0 {
		t.Errorf("there is something to repair:\n%s", again)
	}
}

// The kernel refuses a base chain in the transaction that gives a table its owner.
func TestNewOwnerAddsBaseChains(t *testing.T) {
	m, c, all := protected(t)
	for _, c.CountConnections = range []bool{false, true, false, true} {
		_, batch := m.adopt(c, all)
		for _, op := range batch {
			if _, rebuilt := op.(nft.DeleteTable); rebuilt {
				t.Errorf("for counting %t a table is rebuilt", c.CountConnections)
			}
		}
		if err := m.kernel.Close(); err != nil {
			t.Fatal(err)
		}
		m.kernel = m.open()
	}
	for _, f := range model.Families {
		k := m.open()
		batch := nft.Batch{nft.AddTable{Family: f, Protected: true, Exists: true}, nft.FlushChain{Family: f, Name: "nat-input"}, nft.DeleteChain{Family: f, Name: "nat-input"}}
		if _, err := k.Apply(batch); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m.adopt(c, all) // with a base chain that was gone
}

func TestTablesBecomeProtectedAndUnprotected(t *testing.T) {
	m, on, all := protected(t)
	off := on
	off.Protect = false
	for _, c := range []nft.Config{off, on, off, on} {
		if _, batch := m.adopt(c, all); len(batch) == 0 {
			t.Fatalf("nothing changes for protection: %t", c.Protect)
		}
		have := m.read()
		for _, f := range model.Families {
			if have[f].Protected != c.Protect {
				t.Errorf("%s: protected is %t, want %t", nft.FamilyName(f), have[f].Protected, c.Protect)
			}
		}
	}
}

func TestHeadersNameTheOwner(t *testing.T) {
	m, c, all := protected(t)
	expect := func(when string, k *kernel.Kernel, want func(*nft.Table) bool) {
		t.Helper()
		have, err := k.ReadHeaders()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range model.Families {
			if !want(have[f]) {
				t.Errorf("%s: %s is %+v", when, nft.FamilyName(f), have[f])
			}
		}
	}
	expect("at first", m.kernel, func(table *nft.Table) bool { return table == nil })
	m.adopt(c, all)
	expect("for the owner", m.kernel, func(table *nft.Table) bool {
		return table.Protected && table.Owner != 0 && !table.Foreign && !table.Dormant && len(table.Sets)+len(table.Chains) == 0
	})
	other := m.open()
	expect("for another socket", other, func(table *nft.Table) bool { return table.Owner != 0 && table.Foreign })
	if err := m.kernel.Close(); err != nil {
		t.Fatal(err)
	}
	m.kernel = m.open()
	expect("after the owner", other, func(table *nft.Table) bool { return table.Protected && table.Owner == 0 && !table.Foreign })
}

// Other users of the same socket may write, too.
func TestSharedSocketWritesToProtectedTables(t *testing.T) {
	m, c, all := protected(t)
	rules, _ := m.adopt(c, all)
	beside, err := m.kernel.Share()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		if _, err := beside.Apply(nft.Batch{nft.FlushChain{Family: f, Name: "nat-prerouting"}}); err != nil {
			t.Errorf("%s: %v", nft.FamilyName(f), err)
		}
	}
	m.apply(rules.Repair(m.read()))
	if err := beside.Close(); err != nil {
		t.Error(err)
	}
	m.apply(nft.Batch{nft.FlushChain{Family: model.IPv4, Name: "nat-output"}})
}

func TestOnlyForeignChangesAreForeign(t *testing.T) {
	m := newMachine(t)
	foreign := func() uint32 {
		n, err := m.kernel.ForeignChanges()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := foreign()
	w := services(20)
	_, batch := nft.Adopt(w.config, m.read(), w.all())
	m.apply(batch)
	beside, err := m.kernel.Share()
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	for chain, k := range map[string]*kernel.Kernel{"nat-prerouting": m.kernel, "nat-output": beside} {
		for _, f := range model.Families {
			if _, err := k.Apply(nft.Batch{nft.FlushChain{Family: f, Name: chain}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := k.Apply(nft.Batch{nft.DeleteChain{Name: "no-such-chain"}}); err == nil {
			t.Fatal("a chain that is not there was deleted")
		}
	}
	installed(t).load(m, "add table inet of-our-other-socket")
	beside.CountCommit()
	if now := foreign(); now != before {
		t.Errorf("what we did counts as foreign: %d, then %d", before, now)
	}
	installed(t).load(m, "add table inet elsewhere")
	if now := foreign(); now != before+1 {
		t.Errorf("what another program did is not seen: %d, then %d", before, now)
	}
}
