package objects

import (
	"fmt"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/model"
)

// ready returns the addresses of a family that slices call ready, each once.
func ready(list []discoveryv1.EndpointSlice, f model.Family) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range list {
		if string(s.AddressType) != f.String() {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			a, err := netip.ParseAddr(e.Addresses[0])
			if err != nil {
				return nil, fmt.Errorf("read an endpoint of EndpointSlice %s/%s: %w", s.Namespace, s.Name, err)
			}
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}
