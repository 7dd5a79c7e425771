// Package ruleset tests package nft against the real kernel and nft programs, mostly
// without packets. Each test runs in a fresh network namespace, as root.
//
// A golden file of testdata has the frontends, one on each line, and what of the output of
// `nft -s list table` after our batch was committed the goldens before it do not have:
//
//	-- frontends --
//	pods 10.244.0.0/16 fd00:10:244::/56
//	node-addresses 192.0.2.1 2001:db8:2::1
//	clusterip 10.96.0.10:53/tcp+udp kube-system/kube-dns:dns offpod -> 10.244.1.2:53 10.244.1.3:53
//	clusterip 10.96.0.11:80/tcp shop/web reject
//	clusterip 10.96.0.12:80/tcp shop/cart offpod affinity=3h local=1 -> 10.244.1.4:80 10.244.2.4:80
//	nodeport 30080/tcp shop/cart policy=local
//	loadbalancerip 203.0.113.7:80/tcp shop/cart sources=172.16.0.0/12
//	-- changed.nft --
//
// The whole listing of IPv4 is in walk, kinds has the other chains of all kinds of frontends,
// and all others have the blocks that neither of them has in the same words, and the names of
// base chains that they lack. Of elements that all protocols have, that of TCP is shown, and of
// IPv6 what differs by more than words and addresses of the family.
//
// The line pods detects pods by their addresses, pods-from by their interface (cbr0,
// veth*); without either pods are not detected. The lines drop-invalid, count-connections and
// count-unanswered set the fields of these names. A frontend has a kind, an address unless
// it is a node port, a port with protocols, and the Service port. Each has a second one at the
// address of IPv6 with the same digits, fd00:10:96::11 for 10.96.0.11. The line of a ClusterIP
// has the pool of all frontends of the Service port: either reject or drop, or which
// connections are masqueraded (never, offpod, always) and the endpoints. Options before the
// arrow are how endpoints are chosen (rr, sh, mh, affinity=90s), "retry" for refused connections of
// TCP, "local=1" for how many of
// them, from the first on, are on this node, and "hairpin=10.244.1.2,10.244.1.3" for those
// that may reach themselves. "10.244.1.2:53 x256" is that endpoint and one at each of the
// next 255 addresses, and "10.244.1.2:53*3" has three slots. The policy is Cluster or
// "policy=local"; "sources=" lists the sources that may use the frontend, "denied=" those of them that
// may not.
//
// The golden of a change has the frontends in sections before and after, and the batch
// between them as nft commands in batch.nft. If the lines of pods differ, kube-vmap is
// restarted with other flags in between. A section back.nft is the batch of the reverse change.
//
// Blocks of a listing are sorted by kind and name, because nft lists them in the order in
// which they were added. To rewrite batches and listings from the kernel and the installed
// nft:
//
//	go test ./integration/ruleset -update
package ruleset
