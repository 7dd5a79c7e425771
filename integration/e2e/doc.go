// Package e2e runs upstream's end-to-end tests of SIG Network, unchanged, on a real cluster with
// kube-vmap, as `make e2e`:
//
//	build    what is not there yet: kubelet, kubeadm, upstream's tests, images
//	cluster  a node is a chroot of Debian with containerd and kubelet, in namespaces of its own;
//	         kubeadm installs the cluster, without kube-proxy for these tests
//	install  kube-vmap's image and manifests, by the commands of deploy/README.md
//	tests    which of upstream's tests run, except those of the file exceptions
//
// `make move` is README's quick start, there and back, in such a cluster of three nodes with kube-proxy:
//
//	move     types the commands of README, and counts connections that fail meanwhile
//
// `make rollout` replaces and kills the pods of rollout.yaml in such a cluster:
//
//	rollout  counts connections that are refused, with kube-proxy, kube-vmap, and its retries
//
// `make wake-keda` scales Deployments of wake.yaml to and from zero in such a cluster:
//
//	keda       builds KEDA, and installs it with kube-vmap-scaler
//	wake-keda  runs the program wake, whose clients measure it
//
// The package is compiled as the program of upstream's tests; its folders dns and loadbalancer are
// what a cluster has beside a Service proxy, traffic is the clients and the server of `make move` and
// `make rollout`. It is a module of its own: it needs most of Kubernetes.
package e2e
