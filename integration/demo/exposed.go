package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/model"
)

// The policies for traffic from outside, as the Service API calls them.
const (
	policyCluster = "Cluster"
	policyLocal   = "Local"
)

func (s *story) exposed(ctx context.Context) error {
	s.say("   nginx becomes a Service of type LoadBalancer, with a port of the node and an address of each family.")
	s.say("   The load balancer is outside the cluster, and sends what is for that address to the node:")
	if err := s.exposes(ctx, policyCluster); err != nil {
		return err
	}
	s.say("   Both lead to the ClusterIP and from there on: the endpoints are in the kernel once.")
	s.say("")
	for _, addresses := range [...][2]netip.AddrPort{nginxNodePort, nginxBalancer} {
		for _, at := range addresses {
			if err := s.ask(ctx, web(at), s.first(3)); err != nil {
				return err
			}
		}
	}
	s.say("")
	s.say("   The pod that is chosen may be on another node, so its answer has to come back this way. That is why")
	s.say("   the node puts its own address in the place of the client's. At %s a pod says whom it sees:", whoAmI)
	s.say("")
	return s.seen(func(f model.Family) netip.Addr { return s.lab.Node.Gateway(f) })
}

func (s *story) local(ctx context.Context) error {
	s.say("   With externalTrafficPolicy: Local, traffic from outside goes to pods of this node only. Here these are all:")
	if err := s.exposes(ctx, policyLocal); err != nil {
		return err
	}
	s.say("   Answers from here pass the node anyway, so that clients keep their addresses:")
	s.say("")
	if err := s.seen(s.lab.Outside.Addr); err != nil {
		return err
	}
	s.say("")
	s.say("   The load balancer asks the node at healthCheckNodePort whether it has such pods:")
	s.say("")
	return s.health()
}

// exposes makes nginx reachable from outside and shows what that brings. It must
// not bring endpoints that are there already.
func (s *story) exposes(ctx context.Context, policy string) error {
	u, err := s.rewrite(ctx, serviceFile, func() error { return s.folder.expose(policy) })
	if err != nil {
		return err
	}
	s.say("   The %s objects are chains, rules and maps, which all Services like it will share. nginx itself, for IPv4:",
		u.line.fields["objects"])
	for line := range strings.Lines(u.ipv4()) {
		if strings.Contains(line, " element ") {
			s.quote(line)
		}
	}
	for line := range strings.Lines(u.commands) {
		if strings.HasPrefix(line, "add element ") && strings.Contains(line, " kube-vmap endpoints-") {
			return fmt.Errorf("another address of nginx brought endpoints with it: %s", line)
		}
	}
	return nil
}

// seen shows whom the pods take the host outside for, and checks that it is who
// it should be.
func (s *story) seen(want func(model.Family) netip.Addr) error {
	for _, addresses := range [...][2]netip.AddrPort{nginxNodePort, nginxBalancer} {
		for f, at := range addresses {
			url := "http://" + at.String() + whoAmI
			for i := range 10 {
				body, err := s.lab.Outside.Get(url, patience)
				if err != nil {
					return err
				}
				who := strings.TrimSpace(body)
				if i == 0 {
					s.say("   outside $ curl %-38s   %s", url, who)
				}
				if expected := want(model.Family(f)).String(); who != expected {
					return fmt.Errorf("the pod takes the client for %s, expected %s", who, expected)
				}
			}
		}
	}
	return s.proxy.quiet()
}

// health asks as a load balancer does.
func (s *story) health() error {
	url := "http://" + nginxHealth.String()
	body, err := s.lab.Outside.Get(url, patience)
	if err != nil {
		return err
	}
	s.say("   outside $ curl %s", url)
	s.quote(body)
	if !strings.Contains(body, `"localEndpoints": 3`) {
		return fmt.Errorf("the node does not say that it has three endpoints: %s", body)
	}
	return nil
}
