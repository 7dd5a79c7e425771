// Package inspect is where the instruments are: commands and pages that show what a
// node programs, and what happens to its packets. It has no code of its own; each
// instrument is a package below it.
//
//	package   command                     reads                              built on
//	status    (the document, its client)  the proxy's state, conntrack       sync, nft/kernel/conntrack
//	get       kube-vmap get               status socket; --kernel: kernel    status
//	explain   kube-vmap explain           kernel; hints: status socket       nft/simulate, nft/kernel/simulator
//	trace     kube-vmap explain --trace   packets, as nf_tables reports them nft/kernel/trace
//	top       kube-vmap top               status socket                      status
//	diff      kube-vmap diff, render      status socket, or kernel and       sync, nft, nft/kernel
//	                                      manifests
//	bundle    kube-vmap bundle            all of the above, into an archive  status, diff
//	page      http://NODE:10249/status/   the proxy's state                  status
//
// The status socket is a Unix socket on which the running proxy answers root (see
// package status); the daemon's half of it is cmd/kube-vmap/serve. Nothing here
// changes what a node programs.
package inspect
