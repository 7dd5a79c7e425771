// Package plugin is a cluster as the person who debugs it sees it: three nodes with a
// real kube-vmap each, and kubectl, real too, with the plugin kubectl-vmap.
//
//	kubectl vmap ... --> kube-apiserver --> node-1: kube-vmap, pods pod-1, ...
//	on the host              exec           node-2: kube-vmap, pods remote-1, ...
//	outside                                 node-3: kube-vmap, pods third-1, ...
//
// The way of a command is the real one, except that kubelet and the container runtime are
// simulated. A test:
//
//	func TestMain(m *testing.M) { clustertest.Main(m, built.Plugin) }
//
//	func testX(t *testing.T, c *plugin.Cluster) {
//		ns := c.Namespace(t)
//		web := c.Lab.Pods[0] // on node-1; RemotePods: node-2; ThirdPods: node-3
//		... web.ServeAll(8080) ...
//		_, err := ns.CreatePod(ctx, "web-1", "web", c.At(web))
//		_, err = ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
//		c.AwaitRules(t) // all nodes have what the API server has
//		out := c.Kubectl(t, "vmap", "get", "services", "--node", c.NodeName(c.Lab.Node))
//		if out.Code != 0 || !strings.Contains(out.Stdout, "...") {
//			t.Error(out)
//		}
//	}
//
// A cluster takes some seconds to start: a test that breaks no part of it is a subtest of
// TestSharedCluster, with a namespace of its own.
//
// [Cluster.Nodes] have each node's kube-vmap and its pod.
package plugin
