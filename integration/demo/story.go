package main

import (
	"context"
	"fmt"
	"strings"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// story is the demo as it goes on.
type story struct {
	*stage
	*page
}

// chapters are the story, in the order in which it is told. What a chapter tells
// it does, and it fails if that turns out otherwise.
var chapters = []struct {
	title string
	tell  func(*story, context.Context) error
}{
	{"A cluster on one machine", (*story).cluster},
	{"Two Services", (*story).services},
	{"kube-vmap starts", (*story).begins},
	{"Who answers", (*story).answers},
	{"The way of a packet", (*story).way},
	{"A pod goes", (*story).podGoes},
	{"A pod comes", (*story).podComes},
	{"A pod is replaced", (*story).podReplaced},
	{"Scaled to zero", (*story).zero},
	{"And back", (*story).back},
	{"From outside the cluster", (*story).exposed},
	{"Clients keep their addresses", (*story).local},
	{"Another program flushes all rules", (*story).flushed},
	{"kube-vmap is killed", (*story).killed},
	{"kube-vmap starts again", (*story).again},
	{"What the kernel holds", (*story).rules},
}

// tell tells the whole story, or as much as there is before an error or the end
// of ctx.
func tell(ctx context.Context, stage *stage, p *page) error {
	s := &story{stage, p}
	p.say("kube-vmap is the Service proxy of a Kubernetes node. This is what it does, with real packets.")
	for _, c := range chapters {
		p.chapter(c.title)
		if err := c.tell(s, ctx); err != nil {
			return fmt.Errorf("%q is not as told: %w", c.title, err)
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

func (s *story) cluster(context.Context) error {
	s.say("   Each of these is a network namespace of its own:")
	for line := range strings.SplitSeq(picture, "\n") {
		s.say("%s", line)
	}
	s.say("")
	s.say(`   Port 80 of the first four answers HTTP with "Hi from POD". All have IPv6 addresses as well.`)
	for _, h := range s.lab.Hosts() {
		if !strings.Contains(picture, h.Addr(model.IPv4).String()) {
			return fmt.Errorf("%s has the address %s", h, h.Addr(model.IPv4))
		}
	}
	return nil
}

func (s *story) services(context.Context) error {
	s.say("   A folder of manifests holds the Services and EndpointSlices that the API server would have:")
	s.say("")
	s.say("   SERVICE           CLUSTER-IPS                        PORT       ENDPOINTS")
	s.say("   default/nginx     10.96.191.108, fd00:10:96::bf6c    8080/TCP   pod-1, pod-2 and pod-3, port 80")
	s.say("   kube-system/dns   10.96.0.10, fd00:10:96::a          53/UDP     pod-1 and pod-2, port 53")
	s.say("")
	s.say("   Nobody has the addresses of these Services. They are for the proxy to translate.")
	return s.folder.setEndpoints(s.first(3))
}

func (s *story) begins(ctx context.Context) error {
	s.say("   $ kube-vmap --manifests DIR %s", strings.Join(arguments, " "))
	u, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.say("")
	s.say("   Its log:")
	s.quote(u.line.plain())
	s.say("   That was one netlink batch: the kernel takes all of it, for IPv4 and IPv6, or nothing.")
	return u.oneBatch()
}

func (s *story) answers(ctx context.Context) error {
	s.say("   Each client asks each address %d times, every time over a new connection:", questions)
	s.say("")
	return s.askAll(ctx, s.first(3))
}

func (s *story) way(ctx context.Context) error {
	for _, step := range []struct{ text, object string }{
		{"The address, protocol and port of the Service are looked up in one map, whatever the number of Services:", "map ip kube-vmap services"},
		{"nginx has three endpoints and leads to cluster-3, which marks what needs the node's address as its source:", "chain ip kube-vmap cluster-3"},
		{"All Services with three endpoints share the chain that draws one of three slots:", "chain ip kube-vmap lb-3"},
		{"All Services that use slot 1 share the chain and the map that know the endpoint there:", "chain ip kube-vmap ep-1"},
		{"So a Service is elements of maps, never a chain or rule of its own:", "map ip kube-vmap endpoints-1"},
	} {
		out, err := s.nft(ctx, append([]string{"list"}, strings.Fields(step.object)...)...)
		if err != nil {
			return err
		}
		s.say("   %s", step.text)
		s.quote(inner(out))
	}
	return nil
}

// inner is the listing of one object without the table around it.
func inner(listing string) string {
	lines := strings.SplitAfter(strings.TrimSpace(listing), "\n")
	var text strings.Builder
	for _, line := range lines[1 : len(lines)-1] {
		text.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return text.String()
}

// first are the first n pods that serve.
func (s *story) first(n int) []*lab.Pod { return s.pods[:n] }

// askAll asks both Services from everywhere. nginx has the given endpoints, dns
// always the first two.
func (s *story) askAll(ctx context.Context, pods []*lab.Pod) error {
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

// askNginx asks nginx from everywhere.
func (s *story) askNginx(ctx context.Context, pods []*lab.Pod) error {
	for _, at := range nginx {
		if err := s.ask(ctx, web(at), pods); err != nil {
			return err
		}
	}
	return nil
}

// ask asks a target from everywhere, and shows and checks who answered.
func (s *story) ask(ctx context.Context, t target, pods []*lab.Pod) error {
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
			return fmt.Errorf("ask %s from %s: %w", t.name, c.title, err)
		}
	}
	return nil
}
