package sync

import (
	"fmt"

	"kube-vmap/model"
)

// openFamily returns a warning if a Service has load balancer addresses that anyone may
// use although it limits the clients of those of the other family: an author who limits
// one family may believe that both are limited.
func openFamily(s *model.Service) error {
	var limited [len(model.Families)]bool
	for _, r := range s.SourceRanges {
		if r.Bits() == 0 {
			return nil // all clients are intended
		}
		limited[model.FamilyOf(r.Addr())] = true
	}
	for _, ip := range s.LoadBalancerIPs {
		if f := model.FamilyOf(ip); len(s.SourceRanges) > 0 && !limited[f] {
			return fmt.Errorf(
				"spec.loadBalancerSourceRanges has no range of family %s: anyone may use %s (no one with --strict-source-ranges)", f, ip)
		}
	}
	return nil
}
