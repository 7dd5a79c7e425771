// Package bench measures what kube-vmap costs on a node of a real cluster, as benchmarks: etcd
// and kube-apiserver in a network namespace, many Services, and the built program on a node
// without any other work.
//
//	cd integration/cluster
//	go test -run '^$' -bench KubeVMap -benchtime 1x -timeout 1h ./bench
//
//	          informers            kube-vmap
//	start     exec to synced       exec to the first commit; again with all in place
//	change    API write to         API write to the commit, seen by the kernel's
//	          handler called       generation in the node's namespace
//
// Both wait for the same API server, which takes most of the time on a small machine. So
// figures are compared with a floor of the same run: informers of client-go in a process
// of their own that do nothing with the objects (see integration/cluster/informers). They
// and kube-vmap start in turns, and a ratio is the median of the ratios of all rounds.
//
// The comparison is fair: both are built with the same flags, take the same objects by the
// same selectors in the same encoding (protobuf, lists streamed), and run with the same
// settings of Go's runtime. CPU is the processor time of the process. It includes the
// kernel's work on its batches, but not what the kernel frees afterwards in the background.
// The memory is VmHWM of /proc/PID/status.
//
// KubeProxy measures kube-proxy in the same way, once, and DeadNode how many connections fail when
// a node dies.
package bench
