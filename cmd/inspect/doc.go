// Package inspect is where the instruments are: commands and a page that show what a node
// programs, and what happens to its packets. It has no code of its own; each instrument is
// a package below it, with a NewCommand for the program that includes it.
//
//	package    command                      reads                               library half
//	status     kube-vmap status             status socket                       findings
//	get        kube-vmap get                status socket; --kernel: kernel     nodestatus
//	problems   kube-vmap problems           status socket                       findings
//	explain    kube-vmap explain            kernel; hints from status socket    nft/foreign/livenode and simulate
//	diff       kube-vmap diff, render       status socket; kernel, manifests    sync, nft, nft/kernel
//	bundle     kube-vmap bundle             all of these, into an archive       nodestatus, diff
//	preflight  kube-vmap preflight          the node: kernel, processes, files  cmd/programs
//	page       kubectl vmap page            status and problems of all nodes    page/live
//	nodestatus (the document of a node)     the loop's snapshot, conntrack      nodestatus/build, nodestatus/client
//	findings   (what is wrong, as values)   a Document                          nodestatus
//
// The status socket is a Unix socket on which the running proxy answers root; package
// nodestatus/client has its paths, and cmd/kube-vmap/serve the server. Packages exit and output
// have the exit codes and output formats of commands.
//
// A command that reads nodes is written once, for this node and for a cluster: package nodes has what
// both are to it.
//
// Packages nodes, nodestatus, findings, get, page, exit, output, schema and explain/answer import nothing
// of the node, and build for other platforms, too: programs that ask nodes from elsewhere share
// them. What reads the node is below them: nodestatus/build, nodestatus/client.
//
// No instrument changes what a node programs.
package inspect
