package ruleset

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shownElements is how many elements of a map or set a golden shows at most.
const shownElements = 40

// A block is a chain, map or set of a listing.
type block struct {
	name string   // "chain ep-0"
	body []string // rules; of a map or set its type, size and flags
	// elements that differ only in their protocol are one: "10.96.0.11 . tcp+udp . 80".
	elements []string
}

func (b block) String() string {
	var out strings.Builder
	out.WriteString("\t" + b.name + " {\n")
	for _, line := range b.body {
		out.WriteString("\t\t" + line + "\n")
	}
	for _, line := range b.elements {
		out.WriteString("\t\t\t" + line + "\n")
	}
	return out.String() + "\t}\n"
}

// equal ignores the order of elements: nft sorts them by their bytes.
func (b block) equal(c block) bool {
	sorted := func(lines []string) []string { return slices.Sorted(slices.Values(lines)) }
	return slices.Equal(b.body, c.body) && slices.Equal(sorted(b.elements), sorted(c.elements))
}

func (b block) inIPv4() block {
	return block{b.name, inIPv4(b.body), inIPv4(b.elements)}
}

var (
	ipv6Words = strings.NewReplacer("ip6 ", "ip ", "ipv6_addr", "ipv4_addr", "ipv6-icmp", "icmp",
		"fd00:10:244::/56", "10.244.0.0/16", "2001:db8:203::", "203.0.113.",
		"2001:db8:198::", "198.51.100.", "2001:db8:2::", "192.0.2.")
	serviceAddress = regexp.MustCompile(`fd00:10:96::([0-9a-f]+)`)
	podAddress     = regexp.MustCompile(`fd00:10:244:([0-9])::([0-9a-f]+)`)
)

// inIPv4 replaces the words of IPv6, and the addresses that goldens give to Services, pods and
// nodes, by those of IPv4.
func inIPv4(lines []string) []string {
	replace := func(line string, address *regexp.Regexp, prefix string) string {
		return address.ReplaceAllStringFunc(line, func(a string) string {
			var n int64
			for _, digits := range address.FindStringSubmatch(a)[1:] {
				part, _ := strconv.ParseInt(digits, 16, 32)
				n = n<<8 + part
			}
			return fmt.Sprintf("%s.%d.%d", prefix, n>>8, n&255)
		})
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = replace(replace(ipv6Words.Replace(line), serviceAddress, "10.96"), podAddress, "10.244")
	}
	return out
}

// blocksOf returns the blocks of a table, as nft lists it or as goldens have it.
func blocksOf(table string) (all []block) {
	for line := range strings.Lines(table) {
		text := strings.TrimSpace(line)
		switch tabs := len(line) - len(strings.TrimLeft(line, "\t")); {
		case tabs == 1 && strings.HasSuffix(text, " {"):
			all = append(all, block{name: strings.TrimSuffix(text, " {")})
		case tabs == 2 && !strings.HasPrefix(text, "elements = "):
			b := &all[len(all)-1]
			b.body = append(b.body, text)
		case tabs >= 2:
			b := &all[len(all)-1]
			text = strings.TrimPrefix(text, "elements = { ")
			text = strings.TrimSuffix(strings.TrimSuffix(text, " }"), ",")
			b.elements = append(b.elements, strings.Split(text, ", ")...)
		}
	}
	for i := range all {
		all[i].elements = mergeProtocols(all[i].elements)
	}
	return all
}

var protocolOf = regexp.MustCompile(`(?:^| )(tcp|udp|sctp) \. `)

func mergeProtocols(elements []string) (merged []string) {
	const place = "\x00"
	of := map[string][]string{}
	for _, e := range elements {
		key, protocol := e, ""
		if m := protocolOf.FindStringSubmatchIndex(e); m != nil {
			key, protocol = e[:m[2]]+place+e[m[3]:], e[m[2]:m[3]]
		}
		if _, seen := of[key]; !seen {
			merged = append(merged, key)
		}
		of[key] = append(of[key], protocol)
	}
	for i, key := range merged {
		merged[i] = strings.Replace(key, place, strings.Join(of[key], "+"), 1)
	}
	if n := len(merged); n > shownElements {
		merged = append(merged[:2], fmt.Sprintf("... %d more ...", n-3), merged[n-1])
	}
	return merged
}

// A base has the blocks that goldens need not repeat.
type base struct {
	empty map[string]block // of the empty rule set
	often map[string]block // of often.nft
}

const oftenFile = "testdata/often.nft"

func readBase(t *testing.T) base {
	t.Helper()
	often, err := os.ReadFile(oftenFile)
	if err != nil {
		t.Fatal(err)
	}
	ip, _, _ := strings.Cut(*readGolden(t, emptyWorld).section(wholeSection), secondTable)
	return base{named(blocksOf(ip)), named(blocksOf(string(often)))}
}

const secondTable = "table ip6 "

// condense writes a listing as goldens have it.
func (b base) condense(listing string) string {
	ip, ip6, _ := strings.Cut(listing, secondTable)
	blocks := blocksOf(ip)
	return b.condenseTable("table ip kube-vmap {\n", blocks, b.empty, func(block block) block { return block }) +
		b.condenseIPv6(blocks, ip6)
}

// condenseIPv6 writes what the table of IPv6 has that, but for addresses, is not in the blocks
// of that of IPv4.
func (b base) condenseIPv6(ip []block, ip6 string) string {
	text := base{named(ip), nil}.condenseTable("", blocksOf(ip6), named(ip), block.inIPv4)
	if text == "}\n" {
		return ""
	}
	return secondTable + "kube-vmap {\n" + text
}

// condenseTable writes the blocks that are not in from, those of often.nft by name only.
func (b base) condenseTable(head string, blocks []block, from map[string]block, compared func(block) block) string {
	var out strings.Builder
	out.WriteString(head)
	now := named(blocks)
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := now[name]; !ok {
			out.WriteString("\t# no " + name + "\n")
		}
	}
	var known []string
	var shown []block
	for _, block := range blocks {
		c := compared(block)
		if same, ok := from[c.name]; ok && same.equal(c) {
			continue
		}
		if same, ok := b.often[c.name]; ok && same.equal(c) {
			known = append(known, c.name)
			continue
		}
		typed, ok := b.often[c.name]
		if !ok {
			typed = b.empty[c.name]
		}
		if !strings.HasPrefix(c.name, "chain ") && slices.Equal(typed.body, c.body) {
			block.body = nil
		}
		shown = append(shown, block)
	}
	writeNames(&out, known)
	for _, block := range shown {
		out.WriteString(block.String())
	}
	return out.String() + "}\n"
}

func writeNames(out *strings.Builder, names []string) {
	line := "\t# as in often.nft:"
	for i, name := range names {
		if len(line)+len(name) > 92 {
			out.WriteString(line + "\n")
			line = "\t#"
		}
		line += " " + name
		if i < len(names)-1 {
			line += ","
		}
	}
	if len(names) > 0 {
		out.WriteString(line + "\n")
	}
}

func named(blocks []block) map[string]block {
	all := map[string]block{}
	for _, b := range blocks {
		all[b.name] = b
	}
	return all
}

// oftenOf returns of every name the block that most listings have in the same words; if none
// has it twice, of maps and sets the type.
func oftenOf(listings []string, empty map[string]block) string {
	counts := map[string]int{}
	variants := map[string]map[string]block{}
	for _, listing := range listings {
		ip, _, _ := strings.Cut(listing, secondTable)
		for _, b := range blocksOf(ip) {
			if same, ok := empty[b.name]; ok && same.equal(b) {
				continue
			}
			if variants[b.name] == nil {
				variants[b.name] = map[string]block{}
			}
			typed := block{name: b.name, body: b.body}
			for _, v := range []block{b, typed} {
				counts[v.String()]++
				variants[b.name][v.String()] = v
				if len(b.elements) == 0 {
					break
				}
			}
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		best := slices.MaxFunc(slices.Collect(maps.Values(variants[name])), func(a, b block) int {
			whole := func(v block) int { return min(len(v.elements), counts[v.String()]-1, 1) }
			return cmp.Or(whole(a)-whole(b), counts[a.String()]-counts[b.String()], cmp.Compare(a.String(), b.String()))
		})
		_, inEmpty := empty[name]
		if counts[best.String()] > 1 && (!inEmpty || len(best.elements) > 0) {
			out.WriteString(best.String())
		}
	}
	return out.String()
}

// foldFamilies writes a batch with the commands of IPv4 only, if those of IPv6 are the same but
// for addresses.
func foldFamilies(batch string) string {
	var ip, ip6, ours []string
	for line := range strings.Lines(batch) {
		if strings.Contains(line, " ip6 kube-vmap") {
			ip6 = append(ip6, line)
		} else {
			ip = append(ip, line)
		}
	}
	ours = inIPv4(ip6)
	if len(ip6) == 0 || !slices.Equal(ip, ours) {
		return batch
	}
	return strings.Join(ip, "") + "# and the same of ip6\n"
}
