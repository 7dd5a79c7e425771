package ruleset

import (
	"fmt"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// foreignWrites are changes that another program may make to our table of one family: nft
// commands, in which T is the table, FAM the family, A and B are two addresses outside our
// plan, C is a ClusterIP, S one with session affinity, and ADDR the type of addresses.
var foreignWrites = map[string]string{
	"flushes a chain that rewrites":     "flush chain T service-1",
	"adds a rule to one that remembers": "insert rule T sticky-1-10800s drop",
	"leads a node port elsewhere":       "add element T node-ports { tcp . 9 : goto lb-3 }",
	"drops a node port":                 "add element T no-endpoint-node-ports { tcp . 9 : drop }",
	"gives the node an address":         "add element T node-ips { A }",
	"takes all addresses from the node": "flush set T node-ips",
	"leads an address to a Service":     "add element T service-ips { A . tcp . 9 : C }",
	"empties that map":                  "flush map T service-ips",
	"leads a node port to a Service":    "add element T node-port-service-ips { tcp . 9 : C }; add element T node-port-service-ports { tcp . 9 : 9 }",
	"empties the map of their ports":    "flush map T node-port-service-ports",
	"lets everybody in":                 "flush set T restricted",
	"restricts a frontend":              "add element T restricted { A . tcp . 9 }",
	"allows a source":                   "add element T allowed-sources-L { B . A . tcp . 9 }",
	"lets those in that were let in":    "flush set T allowed-sources-L",
	"gives restrictions other keys": "flush chain T source-check; flush chain T source-check-node-ports; delete set T allowed-sources-L;" +
		"add set T allowed-sources-L { type ADDR . ADDR . inet_proto . inet_service; flags timeout; }",
	"denies a source":                   "add element T denied-sources-L { B . A . tcp . 9 }",
	"denies nobody":                     "flush set T denied-sources-L",
	"restricts a node port":             "add element T restricted-node-ports { tcp . 9 }",
	"lets everybody use node ports":     "flush set T restricted-node-ports",
	"accepts all sources":               "insert rule T source-check accept",
	"accepts all sources of node ports": "insert rule T source-check-node-ports accept",
	"checks no sources":                 "flush chain T filter-prerouting; delete chain T filter-output-early",
	"gives denials other keys": "flush chain T source-check; flush chain T source-check-node-ports; delete set T denied-sources-L;" +
		"add set T denied-sources-L { type ADDR . ADDR . inet_proto . inet_service; flags timeout; }",
	"lets external addresses loop":        "flush set T external-ips",
	"drops an address as a loop":          "add element T external-ips { A }",
	"answers all pings":                   "flush set T no-ping-ips",
	"answers no pings":                    "add element T no-ping-ips { C }",
	"lets invalid packets pass":           "flush set T endpoint-ips",
	"drops invalid packets":               "add element T endpoint-ips { A }",
	"retries nothing":                     "flush set T refusals; flush set T retried",
	"retries others":                      "add element T refusals { A . tcp . 9 }; add element T retried { A . tcp . 9 }",
	"forgets retries, and a set":          "flush chain T retry; delete set T retried",
	"forgets who accepts, and the map":    "flush chain T retry; flush chain T accepted; delete map T accepted",
	"counts everything":                   "flush chain T count; delete set T uncounted",
	"leads an address to local endpoints": "add element T local-services { A . tcp . 9 : goto lb-3 }",
	"leads a node port to local ones":     "add element T local-node-ports { tcp . 9 : goto lb-3 }",
	"forgets all clients, and the map":    "flush chain T sticky-1-10800s; flush chain T sticky-endpoint; flush chain T sticky-client; flush chain T retry; delete map T affinity",
	"remembers fewer clients": "flush chain T sticky-1-10800s; flush chain T sticky-endpoint; flush chain T sticky-client; flush chain T retry; delete map T affinity;" +
		"add map T affinity { type ADDR . ADDR . inet_proto . inet_service : classid; size 10; flags dynamic,timeout; }",
	"forgets all connections, and their set": "flush chain T count; delete set T connections",
	"counts fewer connections": "flush chain T count; delete set T connections;" +
		"add set T connections { type ADDR . inet_proto . inet_service . ADDR . inet_service; size 10; flags dynamic; }",
	"lets connections be forgotten": "flush chain T count; delete set T connections;" +
		"add set T connections { type ADDR . inet_proto . inet_service . ADDR . inet_service; size 131072; flags dynamic,timeout; }",
	"counts no connections to the node": "flush chain T nat-input; delete chain T nat-input",
	"counts no connections":             "flush chain T nat-postrouting; flush chain T nat-input",
	"counts nothing":                    "flush chain T sticky-1-10800s; delete counter T affinity-full",
	"takes away a sticky endpoint":      "flush map T sticky-endpoints",
	"takes away the number of one":      "flush map T sticky-numbers",
	"numbers what no element has": "add element T sticky-numbers { C . tcp . 9 . 0 : none, C . tcp . 9 . 1 : root, C . tcp . 9 . 7777 : 1:1 };" +
		"add element T sticky-endpoints { C . tcp . 9 . root : A . 9, C . tcp . 9 . none : B . 0, C . sctp . 3868 . f000:1 : A . 9 }",
	"numbers slots of others": "add element T sticky-numbers { C . sctp . 3868 . 0 : f000:1, C . sctp . 3868 . 1 : f000:2 };" +
		"add element T sticky-endpoints { C . sctp . 3868 . f000:1 : A . 9, C . sctp . 3868 . f000:2 : A . 9 }",
	"has clients of another version": "flush chain T sticky-1-10800s; flush chain T sticky-endpoint; flush chain T sticky-client; flush chain T retry; delete map T affinity;" +
		"add map T affinity { type ADDR . ADDR . inet_proto . inet_service : ADDR . inet_service; size 262144; flags dynamic,timeout; }",
	"flushes a chain that dispatches":   "flush chain T nat-prerouting",
	"puts a rule before ours":           "insert rule T nat-prerouting accept",
	"puts a rule behind ours":           "add rule T cluster-3 drop",
	"adds a chain that is used by ours": "add chain T foreign; insert rule T service-check jump foreign",
	"adds a base chain":                 "add chain T foreign { type filter hook input priority 5; policy drop; }",
	"adds a chain named like ours": "add chain T lb-77; add chain T ep-99; add chain T lb-1000; add chain T ep-x;" +
		"add chain T sh-77; add chain T node-port-external-local-sticky-3; add chain T sticky-7-7s",
	"adds objects": "add counter T foreign; add quota T foreign { over 1 mbytes }; add limit T foreign { rate 1/second };" +
		"add quota T affinity-full { over 1 mbytes }; add synproxy T foreign { mss 1460 wscale 7 timestamp sack-perm };" +
		"add ct helper T foreign { type \"ftp\" protocol tcp; l3proto FAM; };" +
		"add ct timeout T foreign { protocol tcp; l3proto FAM; policy = { established: 120 }; };" +
		"add ct expectation T foreign { protocol tcp; dport 9876; timeout 2m; size 12; l3proto FAM; }",
	"adds objects, rules and a map with them": "add quota T foreign { over 1 mbytes }; add limit T foreign { rate 1/second };" +
		"add map T foreign { type ADDR : quota; elements = { A : \"foreign\" }; };" +
		"add rule T nat-output quota name \"foreign\" drop; insert rule T cluster-3 limit name \"foreign\";" +
		"add rule T cluster-3 quota name FAM saddr map @foreign drop; add rule T cluster-3 quota name FAM saddr map { A : \"foreign\" }",
	"adds a rule with a chain":       "insert rule T nat-prerouting jump { FAM saddr A drop; }",
	"adds a set and a rule with it":  "add set T foreign { type ADDR; }; add rule T nat-output FAM daddr @foreign accept",
	"adds a set named like ours":     "add set T endpoints-77 { type ADDR; elements = { A }; }; add map T local-affinity { type ADDR : verdict; }",
	"leads a map of its own to ours": "add map T foreign { type ADDR : verdict; elements = { A : goto cluster-3, B : goto lb-3 }; }",
	"leads our map to its own chain": "add chain T foreign; add element T services { A . tcp . 9 : goto foreign }",
	"adds a Service":                 "add element T services { A . tcp . 9 : goto lb-3 }",
	"adds an endpoint":               "add element T endpoints-1 { A . tcp . 9 : B . 9 }",
	"adds a verdict we never write":  "add element T services { A . tcp . 9 : accept }",
	"adds an element for all else":   "add element T cluster-ips { * }",
	"adds a verdict for all else":    "add element T no-endpoint-services { * : drop }",
	"adds a range that is no prefix": "add element T service-cidrs { A-B }",
	"renames a Service": "delete element T services { C . sctp . 3868 };" +
		"add element T services { C . sctp . 3868 comment \"other\" : goto cluster-1 }",
	"takes a Service's name": "delete element T services { C . sctp . 3868 };" +
		"add element T services { C . sctp . 3868 : goto cluster-1 }",
	"gives an endpoint another number": "delete element T sticky-numbers { S . tcp . 80 . 0 };" +
		"add element T sticky-numbers { S . tcp . 80 . 0 : f000:1 }",
	"replaces an endpoint": "delete element T endpoints-0 { C . sctp . 3868 };" +
		"add element T endpoints-0 { C . sctp . 3868 : A . 9 }",
	"empties a set":             "flush set T cluster-ips",
	"empties maps of data":      "flush map T endpoints-1; flush map T local-endpoints-0",
	"empties a map of verdicts": "flush map T services",
	"moves a base chain": "delete chain T filter-input;" +
		"add chain T filter-input { type filter hook input priority 10; }",
	"hooks a base chain elsewhere": "delete chain T nat-output;" +
		"add chain T nat-output { type nat hook prerouting priority 10; }",
	"makes a base chain of another type": "delete chain T nat-output;" +
		"add chain T nat-output { type filter hook output priority -100; }",
	"makes a base chain drop": "add chain T filter-forward { policy drop; }",
	"unhooks a base chain":    "delete chain T filter-input; add chain T filter-input",
	"deletes a base chain":    "delete chain T nat-postrouting",
	"deletes a set":           "flush chain T service-check; flush chain T restore-check; flush chain T loop-check; flush chain T nat-prerouting; flush chain T nat-output; delete set T cluster-ips",
	"gives a set a timeout": "flush chain T nat-postrouting; delete set T hairpin;" +
		"add set T hairpin { type ADDR . ADDR; flags timeout; timeout 1h; }",
	"gives a set other keys": "flush chain T nat-postrouting; delete set T hairpin;" +
		"add set T hairpin { type ADDR; elements = { A }; }",
	"gives a set a smaller size": "flush chain T service-check; flush chain T restore-check; flush chain T loop-check; flush chain T nat-prerouting; flush chain T nat-output; delete set T cluster-ips;" +
		"add set T cluster-ips { type ADDR; size 2; elements = { A, B }; }",
	"adds a pair of pods": "add element T hairpin { A . B }",
	"makes a set of verdicts one of data": "flush chain T ep-1; delete map T endpoints-1;" +
		"add map T endpoints-1 { type ADDR . inet_proto . inet_service : verdict; }",
	"switches the table off":           "add table T { flags dormant; }",
	"switches it off and moves a hook": "add table T { flags dormant; }; delete chain T filter-input",
	"deletes the table":                "delete table T",
	"replaces the table":               "delete table T; add table T; add chain T nat-prerouting",
}

// commands is what a foreignWrite does to the table of a family.
func commands(foreignWrite string, f model.Family) string {
	words := map[string][2]string{
		"T":    {"ip kube-vmap", "ip6 kube-vmap"},
		"A":    {"198.51.100.1", "2001:db8:99::1"},
		"B":    {"198.51.100.7", "2001:db8:99::7"},
		"C":    {"10.96.0.11", "fd00:10:96::11"},
		"S":    {"10.96.0.14", "fd00:10:96::14"},
		"ADDR": {"ipv4_addr", "ipv6_addr"},
		"FAM":  {"ip", "ip6"},
		"L":    {"32", "128"},
	}
	return regexp.MustCompile(`\b[A-Z]+\b`).ReplaceAllStringFunc(foreignWrite, func(word string) string { return words[word][f] })
}

// besides are Services of every other kind, beside those of the golden walk.
const besides = `
drop-invalid
pings-to 192.0.2.1 2001:db8:2::1
node-addresses 192.0.2.1 2001:db8:2::1
clusterip 10.96.0.13:80/tcp+udp      shop/cart offpod local=1 hairpin=10.244.1.7 -> 10.244.1.7:80
nodeport 30080/tcp+udp shop/cart policy=local sources=172.16.0.0/12 denied=172.16.0.7/32
loadbalancerip 203.0.113.7:80/tcp+udp      shop/cart sources=172.16.0.0/12,192.0.2.100/32
externalip 198.51.100.9:80/tcp+udp      shop/cart policy=local
clusterip 10.96.0.14:80/tcp      shop/bank offpod affinity=3h -> 10.244.1.9:8080
clusterip 10.96.0.15:80/sctp      shop/none offpod rr
nodeport 30081/sctp shop/none
clusterip 10.96.0.16:80/tcp shop/again offpod retry -> 10.244.1.10:80 10.244.1.11:80
`

func everything(t *testing.T) *world {
	t.Helper()
	return parseWorld(*readGolden(t, "walk").section("frontends") + besides)
}

func TestForeignChangesAreReverted(t *testing.T) {
	t.Parallel()
	for name := range foreignWrites {
		for _, f := range model.Families {
			t.Run(fmt.Sprintf("a program %s in family %s", name, nft.FamilyName(f)), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				foreign := addForeign(m)
				p, _ := start(m, everything(t))
				before := installed(t).list(m)
				installed(t).load(m, commands(foreignWrites[name], f))
				if equal(m.read(), p.rules.Tables()) {
					t.Fatal("nothing was done")
				}
				start(m, p.world)
				if after := installed(t).list(m); after != before {
					t.Errorf("not all was reverted:%s", firstDifference(after, before))
				}
				foreign.check()
			})
		}
	}
}

// No command of nft adds a limit of connections. A tunnel cannot be in a table of these families,
// and a security mark needs a security module, which this machine may not have.
func TestObjectsWithoutCommandAreDeleted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p, _ := start(m, newWorld())
	for _, f := range model.Families {
		var e attr.Encoder
		e.String(unix.NFTA_OBJ_TABLE, nft.TableName())
		e.String(unix.NFTA_OBJ_NAME, "foreign")
		e.Uint32(unix.NFTA_OBJ_TYPE, unix.NFT_OBJECT_CONNLIMIT)
		e.Nested(unix.NFTA_OBJ_DATA, func() { e.Uint32(1, 7) }) // NFTA_CONNLIMIT_COUNT
		m.apply(nft.Batch{nft.ForeignChange{
			Kind: unix.NFT_MSG_NEWOBJ, Flags: unix.NLM_F_CREATE, Family: nft.FamilyNumber(f), Attributes: e.Bytes,
		}})
	}
	m.apply(p.rules.Repair(m.read()))
	p.check()
}
