package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/model"
)

// Values of externalTrafficPolicy.
const (
	policyCluster = "Cluster"
	policyLocal   = "Local"
)

func (s *walkthrough) exposed(ctx context.Context) error {
	s.print("   nginx becomes a Service of type LoadBalancer, with a NodePort and a load balancer address of each IP family.")
	s.print("   The load balancer is outside the cluster and sends packets for that address to the node:")
	if err := s.expose(ctx, policyCluster); err != nil {
		return err
	}
	s.print("   Both continue like packets to the ClusterIP, so the endpoints are in the kernel only once.")
	s.print("")
	for _, addresses := range [...][2]netip.AddrPort{nginxNodePort, nginxLoadBalancer} {
		for _, at := range addresses {
			if err := s.ask(ctx, web(at), s.first(3)); err != nil {
				return err
			}
		}
	}
	s.print("")
	s.print("   The chosen pod can be on another node, and its answer must come back through this node. Therefore")
	s.print("   the node replaces the client's address by its own. %s returns the client address that the pod sees:", whoAmI)
	s.print("")
	return s.sourceIs(func(f model.Family) netip.Addr { return s.lab.Node.Gateway(f) })
}

func (s *walkthrough) local(ctx context.Context) error {
	s.print("   With externalTrafficPolicy: Local, traffic from outside goes only to pods on this node (here, all of them):")
	if err := s.expose(ctx, policyLocal); err != nil {
		return err
	}
	s.print("   Answers of pods on this node pass the node anyway, so client addresses are preserved:")
	s.print("")
	if err := s.sourceIs(s.lab.Outside.Addr); err != nil {
		return err
	}
	s.print("")
	s.print("   The load balancer checks at the healthCheckNodePort whether the node has such pods:")
	s.print("")
	return s.health()
}

// expose makes nginx reachable from outside and prints the changes. They must not
// contain endpoints, which exist already.
func (s *walkthrough) expose(ctx context.Context, policy string) error {
	u, err := s.rewrite(ctx, serviceFile, func() error { return s.folder.expose(policy) })
	if err != nil {
		return err
	}
	s.print("   The %s objects are chains, rules and maps that all Services of this kind share. The elements of nginx, for IPv4:",
		u.Entry["objects"])
	for line := range strings.Lines(u.ipv4()) {
		if strings.Contains(line, " element ") {
			s.quote(line)
		}
	}
	for line := range strings.Lines(u.commands) {
		if strings.HasPrefix(line, "add element ") && strings.Contains(line, " kube-vmap endpoints-") {
			return fmt.Errorf("another address of nginx added endpoints: %s", line)
		}
	}
	return nil
}

// sourceIs prints and verifies the client address that the pods see for requests of
// the host outside.
func (s *walkthrough) sourceIs(want func(model.Family) netip.Addr) error {
	for _, addresses := range [...][2]netip.AddrPort{nginxNodePort, nginxLoadBalancer} {
		for f, at := range addresses {
			url := "http://" + at.String() + whoAmI
			for i := range 10 {
				body, err := s.lab.Outside.Get(url, timeout)
				if err != nil {
					return err
				}
				who := strings.TrimSpace(body)
				if i == 0 {
					s.print("   outside $ curl %-38s   %s", url, who)
				}
				if expected := want(model.Family(f)).String(); who != expected {
					return fmt.Errorf("the pod sees client address %s, want %s", who, expected)
				}
			}
		}
	}
	return s.proxy.idle()
}

// health sends the health check of a load balancer.
func (s *walkthrough) health() error {
	url := "http://" + nginxHealth.String()
	body, err := s.lab.Outside.Get(url, timeout)
	if err != nil {
		return err
	}
	s.print("   outside $ curl %s", url)
	s.quote(body)
	if !strings.Contains(body, `"localEndpoints": 3`) {
		return fmt.Errorf("health check: want three local endpoints: %s", body)
	}
	return nil
}
