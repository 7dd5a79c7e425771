// Command loadbalancer is a cloud's load balancer for upstream's tests: the service controller of
// Kubernetes, with routes as the cloud. Each Service of type LoadBalancer gets an address, which
// the network namespace of this process routes to the nodes; the client's address stays. Like a
// cloud's, it leaves nodes out whose health check node port does not answer 200.
//
//	client --> route to 172.31.0.1, one next hop per node --> Service proxy of a node
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/prometheus/controllers"
)

// checkPeriod is how often nodes are asked for their health. Tests wait a few seconds for it.
const checkPeriod = 300 * time.Millisecond

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	source := flag.String("source", "", "this namespace's address towards load balancers")
	flag.Parse()
	c := newCloud(netip.MustParseAddr("172.31.0.1"), *source)
	if err := run(c, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "loadbalancer:", err)
		os.Exit(1)
	}
}

// run assigns addresses and routes them, until the process is killed.
func run(c *cloud, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	controller, err := service.New(c, client, services, nodes, "e2e", featuregate.NewFeatureGate())
	if err != nil {
		return err
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	go controller.Run(ctx, 2, controllers.NewControllerManagerMetrics("loadbalancer"))
	for range time.Tick(checkPeriod) {
		if err := c.route(); err != nil {
			return err
		}
	}
	return nil
}
