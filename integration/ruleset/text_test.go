package ruleset

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// reader makes a world of the text form that the package's comment describes.
type reader struct {
	*world
	services map[model.Match][]model.Frontend // by the pool's key, the ClusterIP first
}

// parseWorld panics on a text that it does not understand.
func parseWorld(text string) *world {
	r := &reader{newWorld(), map[model.Match][]model.Frontend{}}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			r.line(words)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.services), model.Match.Compare) {
		r.put(fit(r.services[key])...)
	}
	return r.world
}

func (r *reader) line(words []string) {
	switch words[0] {
	case "pods":
		for _, p := range words[1:] {
			prefix := netip.MustParsePrefix(p)
			r.config.Pods[model.FamilyOf(prefix.Addr())] = prefix
		}
	case "pods-from":
		name, prefix := strings.CutSuffix(words[1], "*")
		r.config.PodInterface = nft.Interface{Name: name, Prefix: prefix}
	case "pings-to":
		for _, a := range words[1:] {
			to := netip.MustParseAddr(a)
			r.config.PingTo[model.FamilyOf(to)] = to
		}
	case "drop-invalid":
		r.config.DropInvalid = true
	case "count-connections":
		r.config.CountConnections = true
	case "count-unanswered":
		r.config.PassiveHealth = true
	case "service-cidrs":
		for _, p := range words[1:] {
			r.cidrs = append(r.cidrs, netip.MustParsePrefix(p))
		}
	case "node-addresses":
		for _, a := range words[1:] {
			r.nodeAddrs = append(r.nodeAddrs, netip.MustParseAddr(a))
		}
	default:
		r.frontends(words)
	}
}

// known returns the value of a word, which must be in the map.
func known[T any](words map[string]T, word string) T {
	value, ok := words[word]
	if !ok {
		panic("ruleset: unknown word " + word)
	}
	return value
}

// must returns a number that was parsed.
func must[T any](n T, err error) T {
	if err != nil {
		panic(err)
	}
	return n
}

var protocols = map[string]model.Protocol{"tcp": model.TCP, "udp": model.UDP, "sctp": model.SCTP}

var kinds = map[string]model.Kind{
	"clusterip": model.KindClusterIP, "nodeport": model.KindNodePort,
	"externalip": model.KindExternalIP, "loadbalancerip": model.KindLoadBalancerIP,
}

// frontends reads a line, which is one frontend for each protocol and family.
func (r *reader) frontends(words []string) {
	at, all, _ := strings.Cut(words[1], "/")
	for protocol := range strings.SplitSeq(all, "+") {
		for _, family := range model.Families {
			f := model.Frontend{Kind: known(kinds, words[0]), Match: model.Match{Family: family, Protocol: known(protocols, protocol)}}
			full, port, _ := strings.Cut(words[2], ":")
			f.Service.Protocol, f.Service.Port = f.Match.Protocol, port
			f.Service.Namespace, f.Service.Name, _ = strings.Cut(full, "/")
			r.add(f, at, words[3:])
		}
	}
}

// add adds a frontend of one protocol and family at an address and port, or a port alone, after
// the ClusterIP of its Service.
func (r *reader) add(f model.Frontend, at string, words []string) {
	pool := parseTreatment(&f, words)
	addr, port, found := strings.Cut(at, ":")
	if found {
		f.Match.Addr = addressIn(f.Match.Family, addr)
	} else {
		port = addr
	}
	if f.Match.Port = uint16(must(strconv.ParseUint(port, 10, 16))); f.Kind == model.KindClusterIP {
		pool.Key, f.Pool = f.Match, &pool
		r.services[f.Match] = []model.Frontend{f}
		return
	}
	for key, service := range r.services {
		if service[0].Service == f.Service && key.Family == f.Match.Family {
			f.Pool = service[0].Pool
			r.services[key] = append(service, f)
			return
		}
	}
	panic("ruleset: no ClusterIP of " + f.Service.String())
}

// addressIn returns an address of IPv4, or the one of IPv6 with the same digits:
// fd00:10:96::11 for 10.96.0.11.
func addressIn(f model.Family, text string) netip.Addr {
	if f == model.IPv6 {
		d := strings.Split(text, ".")
		text = "fd00:" + strings.Join(d[:3], ":") + "::" + d[3]
	}
	return netip.MustParseAddr(text)
}

// prefixIn is addressIn for a range: the one of IPv6 contains the addresses of that of IPv4.
func prefixIn(f model.Family, text string) netip.Prefix {
	addr, length, _ := strings.Cut(text, "/")
	bits := must(strconv.Atoi(length))
	a := addressIn(f, addr)
	if f == model.IPv6 && bits < 32 {
		bits = 16 + 2*bits
	} else if bits == 32 {
		bits = a.BitLen()
	}
	return netip.PrefixFrom(a, bits).Masked()
}

var masquerades = map[string]model.Masquerade{
	"never": model.MasqueradeNever, "offpod": model.MasqueradeOffPod, "always": model.MasqueradeAlways,
}

var schedulers = map[string]model.Scheduler{"rr": model.SchedulerRoundRobin, "sh": model.SchedulerSourceHash, "mh": model.SchedulerMaglev}

// parseTreatment reads what happens to connections to a frontend, and the pool
// that one of a ClusterIP has.
func parseTreatment(f *model.Frontend, words []string) (pool model.Pool) {
	family := f.Match.Family
	pool.Scheduler = model.SchedulerRandom
	local := 0
	for i, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case word == "reject": // as whoever has no endpoints
		case word == "drop":
			f.Verdict = model.VerdictDrop
		case word == "policy=local":
			f.Policy = model.PolicyLocal
		case name == "sources":
			f.Restricted = true
			f.Sources = parseList(value, func(text string) netip.Prefix { return prefixIn(family, text) })
		case name == "denied":
			f.Denied = parseList(value, func(text string) netip.Prefix { return prefixIn(family, text) })
		case name == "hairpin":
			pool.Hairpin = parseList(value, func(text string) netip.Addr { return addressIn(family, text) })
		case name == "affinity":
			pool.Affinity = must(time.ParseDuration(value))
		case word == "retry":
			pool.RetryRefused = f.Match.Protocol == model.TCP
		case name == "local":
			local = must(strconv.Atoi(value))
		case word == "->":
			pool.Cluster, pool.ClusterShares = parseEndpoints(family, words[i+1:])
			pool.Local = pool.Cluster[:min(local, len(pool.Cluster))]
			if pool.ClusterShares != nil {
				pool.LocalShares = pool.ClusterShares[:len(pool.Local)]
			}
			weigh(&pool)
			return pool
		case schedulers[word] != 0:
			pool.Scheduler = schedulers[word]
		default:
			f.Masquerade = known(masquerades, word)
		}
	}
	return pool
}

// parseList reads words with commas between them.
func parseList[T any](text string, parse func(string) T) (out []T) {
	for word := range strings.SplitSeq(text, ",") {
		if word != "" {
			out = append(out, parse(word))
		}
	}
	return out
}

// parseEndpoints reads endpoints, each of which may be followed by a number of endpoints, and
// the number of slots of each; nil if all have one.
func parseEndpoints(f model.Family, words []string) (out []netip.AddrPort, shares []uint16) {
	share := map[netip.AddrPort]uint16{}
	for _, word := range words {
		if times, ok := strings.CutPrefix(word, "x"); ok {
			out = behind(out, must(strconv.Atoi(times))-1)
			continue
		}
		word, times, weighted := strings.Cut(word, "*")
		at := netip.MustParseAddrPort(word)
		e := netip.AddrPortFrom(addressIn(f, at.Addr().String()), at.Port())
		if out = append(out, e); weighted {
			share[e] = uint16(must(strconv.ParseUint(times, 10, 16)))
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	if len(share) > 0 {
		for _, e := range out {
			shares = append(shares, cmp.Or(share[e], 1))
		}
	}
	return out, shares
}

// weigh makes the shares of a pool its weights, and leaves them to the table that
// [model.SchedulerMaglev] has instead.
func weigh(p *model.Pool) {
	p.ClusterWeights, p.LocalWeights = p.ClusterShares, p.LocalShares
	if p.Scheduler == model.SchedulerMaglev && p.Affinity == 0 {
		p.ClusterShares, p.LocalShares = nil, nil
	}
}

// behind appends n endpoints on the addresses that follow the last one.
func behind(endpoints []netip.AddrPort, n int) []netip.AddrPort {
	last := endpoints[len(endpoints)-1]
	for range n {
		last = netip.AddrPortFrom(last.Addr().Next(), last.Port())
		endpoints = append(endpoints, last)
	}
	return endpoints
}
