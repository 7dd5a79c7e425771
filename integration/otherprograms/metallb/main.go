// Command announce answers ARP and neighbor discovery for addresses, on all interfaces of the
// network namespace in which it is started, as the speaker of MetalLB does in L2 mode: it runs
// MetalLB's announcer. Its arguments are the addresses.
//
// The module's path is below that of MetalLB because the announcer is an internal package.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/go-kit/log"
	"k8s.io/apimachinery/pkg/util/sets"

	"go.universe.tf/metallb/internal/layer2"
)

func main() {
	announcer, err := layer2.New(log.NewLogfmtLogger(os.Stderr), nil, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, text := range os.Args[1:] {
		announcer.SetBalancer(text, layer2.NewIPAdvertisement(net.ParseIP(text), true, sets.New[string]()))
	}
	select {}
}
