package main

import (
	"context"
	"fmt"
	"strings"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// walkthrough is the environment with the output.
type walkthrough struct {
	*environment
	*output
}

// sections are the sections of the demo, in order. Each does what it prints, and
// fails if the result differs.
var sections = []struct {
	title string
	run   func(*walkthrough, context.Context) error
}{
	{"A cluster on one machine", (*walkthrough).cluster},
	{"Two Services", (*walkthrough).services},
	{"kube-vmap starts", (*walkthrough).firstStart},
	{"Requests are spread over the endpoints", (*walkthrough).answers},
	{"The path of a packet", (*walkthrough).path},
	{"An endpoint is removed", (*walkthrough).endpointRemoved},
	{"An endpoint is added", (*walkthrough).endpointAdded},
	{"An endpoint is replaced", (*walkthrough).endpointReplaced},
	{"Scaled to zero", (*walkthrough).scaledToZero},
	{"Scaled up again", (*walkthrough).scaledUp},
	{"Traffic from outside the cluster", (*walkthrough).exposed},
	{"Preserving client addresses", (*walkthrough).local},
	{"Another program flushes all rules", (*walkthrough).flushed},
	{"kube-vmap is killed", (*walkthrough).killed},
	{"kube-vmap starts again", (*walkthrough).restarted},
	{"The rules in the kernel", (*walkthrough).rules},
}

// runSections runs all sections, up to an error or the end of ctx.
func runSections(ctx context.Context, e *environment, out *output) error {
	s := &walkthrough{e, out}
	out.print("kube-vmap is the Service proxy of a Kubernetes node. This demo shows what it does, with real packets.")
	for _, c := range sections {
		out.section(c.title)
		if err := c.run(s, ctx); err != nil {
			return fmt.Errorf("section %q failed: %w", c.title, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

const picture = `
        pod-1        pod-2        pod-3        pod-4     client pod
     10.244.1.2   10.244.1.3   10.244.1.4   10.244.1.5   10.244.1.6
          |            |            |            |            |
    +-----+------------+------------+------------+------------+----+
    |                       node  192.0.2.1                        |
    +-----------------------------+--------------------------------+
                                  |
                       outside  192.0.2.100`

func (s *walkthrough) cluster(context.Context) error {
	s.print("   The node, each pod, and a host outside the cluster are network namespaces on this machine:")
	for line := range strings.SplitSeq(picture, "\n") {
		s.print("%s", line)
	}
	s.print("")
	s.print(`   pod-1 to pod-4 serve HTTP on port 80 and answer "Hi from POD". All hosts have IPv6 addresses, too.`)
	for _, h := range s.lab.Hosts() {
		if !strings.Contains(picture, h.Addr(model.IPv4).String()) {
			return fmt.Errorf("%s has the address %s", h, h.Addr(model.IPv4))
		}
	}
	return nil
}

func (s *walkthrough) services(context.Context) error {
	s.print("   kube-vmap usually watches the API server. Here it reads Services and EndpointSlices from a folder of manifests:")
	s.print("")
	s.print("   SERVICE           CLUSTER-IPS                        PORT       ENDPOINTS")
	s.print("   default/nginx     10.96.191.108, fd00:10:96::bf6c    8080/TCP   pod-1, pod-2 and pod-3, port 80")
	s.print("   kube-system/dns   10.96.0.10, fd00:10:96::a          53/UDP     pod-1 and pod-2, port 53")
	s.print("")
	s.print("   No host has a ClusterIP. The proxy translates them to the addresses of endpoints.")
	return s.folder.setEndpoints(s.first(3))
}

func (s *walkthrough) firstStart(ctx context.Context) error {
	s.print("   $ kube-vmap --manifests DIR %s", strings.Join(arguments, " "))
	u, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.print("")
	s.print("   It logs:")
	s.quote(u.line)
	s.print("   This was one netlink batch with the rules for IPv4 and IPv6. The kernel applies a batch as a whole, or not at all.")
	return u.oneBatch()
}

func (s *walkthrough) answers(ctx context.Context) error {
	s.print("   Each client sends %d requests to each address, each over a new connection:", requests)
	s.print("")
	return s.askAll(ctx, s.first(3))
}

func (s *walkthrough) path(ctx context.Context) error {
	for _, step := range []struct{ text, object string }{
		{"One map lookup finds the Service by address, protocol and port, however many Services there are:", "map ip kube-vmap services"},
		{"nginx has three endpoints, so its packets go to cluster-3. It marks packets that need the node's address as their source:", "chain ip kube-vmap cluster-3"},
		{"lb-3 picks one of three slots at random. All Services with three endpoints share this chain:", "chain ip kube-vmap lb-3"},
		{"ep-1 translates the destination to the endpoint in slot 1. All Services with two or more endpoints share this chain:", "chain ip kube-vmap ep-1"},
		{"The endpoints in slot 1 are elements of this map. So a Service only adds map elements, never a chain or a rule:", "map ip kube-vmap endpoints-1"},
	} {
		out, err := s.nft(ctx, append([]string{"list"}, strings.Fields(step.object)...)...)
		if err != nil {
			return err
		}
		s.print("   %s", step.text)
		s.quote(inner(out))
	}
	return nil
}

// inner returns the listing of one object without the table around it.
func inner(listing string) string {
	lines := strings.SplitAfter(strings.TrimSpace(listing), "\n")
	var text strings.Builder
	for _, line := range lines[1 : len(lines)-1] {
		text.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return text.String()
}

// first returns the first n pods that serve.
func (s *walkthrough) first(n int) []*lab.Pod { return s.pods[:n] }

// askAll sends requests to both Services from all clients. nginx has the given
// endpoints, dns always the first two.
func (s *walkthrough) askAll(ctx context.Context, pods []*lab.Pod) error {
	if err := s.askNginx(ctx, pods); err != nil {
		return err
	}
	for _, at := range dns {
		if err := s.ask(ctx, datagram(at), s.first(2)); err != nil {
			return err
		}
	}
	return nil
}

// askNginx sends requests to nginx from all clients.
func (s *walkthrough) askNginx(ctx context.Context, pods []*lab.Pod) error {
	for _, at := range nginx {
		if err := s.ask(ctx, web(at), pods); err != nil {
			return err
		}
	}
	return nil
}

// ask sends requests to a target from all clients. It prints and verifies which pods
// answered.
func (s *walkthrough) ask(ctx context.Context, t target, pods []*lab.Pod) error {
	tallies := make([]tally, len(s.clients))
	for i, c := range s.clients {
		var err error
		if tallies[i], err = t.count(ctx, c); err != nil {
			return err
		}
	}
	s.chart(t.name, names(pods), s.clients, tallies)
	for i, c := range s.clients {
		if err := tallies[i].check(names(pods)); err != nil {
			return fmt.Errorf("request to %s from %s: %w", t.name, c.title, err)
		}
	}
	return nil
}
