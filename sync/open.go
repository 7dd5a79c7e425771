package sync

import (
	"fmt"

	"kube-vmap/model"
)

// openFamily is an error about load balancer addresses of a Service that anyone
// may use although it limits who may use those of the other family: whoever
// limited one may think that both are. Nil if there are none.
func openFamily(s *model.Service) error {
	var limited [len(model.Families)]bool
	for _, r := range s.SourceRanges {
		if r.Bits() == 0 {
			return nil // everyone is meant
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

// warn notes what is strange about a Service, or that nothing is.
func (s *state) warn(name model.ServiceName, err error) {
	if s.config.StrictSourceRanges {
		return
	}
	s.warnings.set(SetProblem{Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}, err})
}
