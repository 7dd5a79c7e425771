// Package nft is the rule set: the tables, chains, sets and elements that serve a list of
// frontends, and the changes from one state to another. It knows nftables, not
// Kubernetes, and does no I/O.
//
//	model.Frontend --compile--> elements --diff--> Batch --wire.Encode--> bytes
//	                 (slots)                         \-----String-----> nft commands
//
// There is one table of the same shape in each family, and one law: no chain, set or rule
// per Service or endpoint. A Service consists of elements in shared maps.
//
//	map services     { ip daddr . meta l4proto . th dport : verdict }
//	                 10.96.0.10 . udp . 53 : goto cluster-3
//	chain cluster-3  ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x4000
//	                 goto lb-3
//	chain lb-3       numgen random mod 3 vmap { 0 : goto ep-0, 1 : goto ep-1, 2 : goto ep-2 }
//	chain ep-1       meta l4proto != icmp dnat ip to
//	                 ip daddr . meta l4proto . th dport map @endpoints-1
//	map endpoints-1  10.96.0.10 . udp . 53 : 10.244.0.7 . 53
//
// There is a chain lb-N for each number of slots in use, and a chain ep-K with its map
// endpoints-K for each slot; all Services with N slots share them. An endpoint has one
// slot, or several for a larger share of the connections. So a replaced endpoint is one
// element deleted and one added in a map of plain data, which the kernel need not validate
// further. A packet to another address of the Service first gets the Service's ClusterIP as
// destination (rules_rewrite.go), so all addresses of a Service share these elements, too.
//
// [Ruleset] is the current state. [Ruleset.Plan] returns the [Batch] that changes it to
// another one, and only [Ruleset.Commit], after the kernel accepted the batch, makes that
// the current state. [Adopt] begins: it compares the state with what the kernel holds
// ([Tables]), and endpoints keep the slots that they have there.
//
// # Chains and sets
//
// Each table has these chains. Those with a hook are base chains (type, hook, priority), the others are
// jumped to. N is a number of slots or a slot; names can have the prefixes node-port- and local-.
//
//	nat-prerouting           nat prerouting dstnat - 1     looks up new connections: dispatch, then local endpoints
//	nat-output               nat output -101               the same for connections of the node
//	restore-prerouting       filter prerouting dstnat + 1  new connections: loop-check
//	restore-output           filter output -99             the same for packets of the node: restore-check
//	filter-input             filter input filter           rejects or drops what no endpoint serves
//	filter-forward           filter forward filter         the same, and unallocated ports and ClusterIPs: service-check
//	filter-output            filter output filter          the same for packets of the node
//	nat-postrouting          nat postrouting srcnat        masquerades what is marked or labelled, and hairpins
//	source-check             -                             drops sources that are denied, or not allowed
//	dispatch                 -                             looks up services, then node ports
//	restore-check            -                             what was rewritten and not translated: restore
//	loop-check               -                             the same, and labels what would loop: external-ips
//	restore                  -                             undoes rewrite: the packet is rejected as it came
//	service-check            -                             rejects or drops by no-endpoint-*, cluster-ips, service-cidrs
//	source-port              -                             masquerades, with a source port by protocol
//	reject-chain             -                             rejects: TCP reset, ICMP port unreachable
//	ep-N                     -                             translates to the endpoint in slot N
//	retry                    -                             drops refusals of endpoints, for the client to send again
//	accepted                 -                             sends a retry to an endpoint that has just accepted
//	source-check-node-ports  -                             source-check for restricted-node-ports
//	hold                     -                             records who waits for an endpoint, and drops
//	sticky-endpoint          -                             translates to the endpoint whose number the packet has
//	sticky-client            -                             looks up the number that is remembered for the client
//	sticky-new               -                             the same for a client that has just been remembered
//	count                    -                             counts connections
//	rewrite                  -                             makes the ClusterIP the destination
//	sticky-pick-N            -                             picks the number of one of at most N slots at random
//	sticky-full-N            -                             the same by the client's address, if the map is full
//	lb-N                     -                             picks one of N slots; also rr-N, sh-N, maglev-N, sticky-N
//	cluster-N                -                             marks packets from others than pods, then balances
//	masquerade-N             -                             marks all packets for masquerade, then balances
//	service-N                -                             jumps to rewrite, then balances
//	external-N               -                             marks for masquerade, then goes to service-N
//	external-local-N         -                             external-N for pods and the node, others return
//	nat-input                nat input 100                 counts connections to endpoints that are this node
//	filter-prerouting        filter prerouting dstnat - 10  source-check for restricted; drops invalid packets
//	filter-output-early      filter output -110            the same for packets of the node, before translation
//
// And these sets and maps. All but those that packets fill are written by the loop.
//
//	services                 daddr . proto . dport : verdict               frontends with an address
//	local-services           daddr . proto . dport : verdict               the same for others, policy Local
//	node-ports               proto . dport : verdict                       node ports
//	local-node-ports         proto . dport : verdict                       the same for others, policy Local
//	no-endpoint-services     daddr . proto . dport : verdict               without endpoints: reject, drop or hold
//	no-endpoint-node-ports   proto . dport : verdict                       the same for node ports
//	service-ips              daddr . proto . dport : address               the ClusterIP behind an external address
//	node-port-service-ips    proto . dport : address                       the ClusterIP behind a node port
//	node-port-service-ports  proto . dport : port                          its port
//	cluster-ips              daddr                                         ClusterIPs, of which other ports are rejected
//	external-ips             daddr                                         external addresses; other ports do not loop
//	no-ping-ips              daddr                                         addresses that do not answer pings
//	node-ips                 daddr                                         node addresses that serve node ports
//	hairpin                  saddr . daddr                                 endpoints of this node that reach themselves
//	service-cidrs            daddr                                         ServiceCIDRs; other addresses are dropped
//	endpoint-ips             client                                        TCP endpoints, with Config.DropInvalid
//	endpoints-N              daddr . proto . dport : address . port        the endpoint of each pool in slot N
//	endpoints-many           daddr . proto . dport . pick : address . port  endpoints of pools with more than MaxSlots
//	sticky-numbers           daddr . proto . dport . pick : number         the number of the endpoint in a slot
//	sticky-endpoints         daddr . proto . dport . number : address . port  the endpoint of a number
//	affinity                 client . daddr . proto . dport : number       by packets: remembered clients
//	connections              original daddr . proto . original dport . daddr . dport  by packets: counters
//	uncounted                original daddr . proto . original dport       frontends that are not counted for some time
//	held                     daddr . proto . dport                         by packets: frontends that held connections
//	waiting                  client . daddr . proto . dport                by packets: the clients of these connections
//	restricted-node-ports    proto . dport                                 node ports with source ranges
//	refusals                 original daddr . proto . original dport        frontends that retry; counts refusals
//	retried                  original daddr . proto . original dport        the same; counts what was retried
//	retrying                 original saddr . original sport . original daddr . original dport . number  by packets
//	accepted                 original dport . original daddr : number      by packets: who has just accepted
//	restricted               daddr . proto . dport                         frontends with source ranges
//	allowed-sources-N        client . daddr . proto . dport                allowed sources, by the length N of the prefix
//	denied-sources-N         client . daddr . proto . dport                denied sources, the same
//
// The files, in the order of the data:
//
//	family, chains, sets, layout   the schema: every chain with its hook, every set with its key
//	config, rules, rules_*         the rules of each chain; statement* and pick build them
//	names                          names of chains and sets, and back
//	element, compile               a frontend as elements, which are made when they are encoded
//	slots                          endpoints keep their slots, as many as they have shares
//	ruleset, plan                  the state, a change of it
//	frontends, collect             the whole state, in order; its elements
//	tables, diff                   the same, compared with what the kernel holds
//	references                     which chains and sets are in use
//	edit, batch, steps             a batch in the order that the kernel accepts, and divided; sets that are too small
//	installed                      the rule set read back as frontends
//	text                           batch, rule set, tables and differences as nft text
//
// The text is here and not in a package of its own, because a statement is made as text and
// expressions side by side. The netlink form is in kube-vmap/nft/wire, the socket in
// kube-vmap/nft/kernel.
package nft
