package ruleset

import "testing"

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
