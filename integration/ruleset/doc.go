// Package ruleset holds the tests of package nft that the kernel must judge, but
// for which no packet has to flow, except to see that it arrives intact. Each
// runs in a fresh network namespace, as root.
//
// A golden file of testdata says which frontends there are, a line each, and
// what `nft -s list table` shows of both tables once our batch is in the kernel:
//
//	-- frontends --
//	pods 10.244.0.0/16
//	service-cidrs 10.96.0.0/16
//	node-addresses 192.0.2.1
//	clusterip 10.96.0.10:53/tcp+udp kube-system/kube-dns:dns offpod -> 10.244.1.2:53 10.244.1.3:53
//	clusterip 10.96.0.11:80/tcp shop/web reject
//	clusterip 10.96.0.12:80/tcp shop/cart offpod affinity=3h local=1 -> 10.244.1.4:80 10.244.2.4:80
//	nodeport 30080/tcp shop/cart policy=local
//	loadbalancerip 203.0.113.7:80/tcp shop/cart sources=172.16.0.0/12
//	-- ruleset.nft --
//
// The line pods tells pods from others by their addresses, pods-from by their
// interface (cbr0, veth*); without either they cannot be told. The line
// drop-invalid sets the flag of that name, and so does count-connections. A
// frontend has its kind, its address or none, its port and protocols, and the Service port. That of a ClusterIP says
// what is behind the others: either reject or drop, or which connections are
// masqueraded (never, offpod, always) and the endpoints. Before the arrow may
// stand how endpoints are chosen (rr, sh, mh, affinity=90s), "local=1" for how
// many of them, from the first on, are on this node, and
// "hairpin=10.244.1.2,10.244.1.3" for those that may reach themselves;
// "10.244.1.2:53 x256" is that endpoint and the 255 addresses behind it. The
// policy is Cluster or "policy=local", and "sources=" lists who may come in.
//
// The golden of a change has the frontends in sections before and after, the
// batch between them as nft commands in batch.nft, and the listing of the state
// after it. Where the lines of pods differ, kube-vmap was started again between
// the two, with other flags. A section back.nft is the batch of the way back.
//
// Blocks of a listing are sorted by kind and name, because nft lists them in the
// order in which they were made. To rewrite batches and listings from what the
// kernel has and the installed nft shows:
//
//	go test ./integration/ruleset -update
package ruleset
