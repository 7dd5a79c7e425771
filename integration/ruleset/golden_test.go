package ruleset

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"kube-vmap/model"
	"kube-vmap/nft"
)

var update = flag.Bool("update", false, "rewrite batches and listings of testdata")

// The section wholeSection has the listing of IPv4 as nft prints it, otherSection what the
// goldens of baseGoldens before it do not have.
const (
	wholeSection = "ruleset.nft"
	otherSection = "changed.nft"
)

// baseGoldens are compared and written first, in this order.
var baseGoldens = []string{"walk", "kinds"}

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	all := map[string]*golden{}
	t.Run("all", func(t *testing.T) {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			g := readGolden(t, name)
			all[name] = g
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkListings(t, g.run(t))
			})
		}
	})
	base := ""
	for _, name := range baseGoldens {
		base += all[name].compareListing(t, base)
		delete(all, name)
	}
	for _, g := range all {
		g.compareListing(t, base)
	}
}

type golden struct {
	path string
	*txtar.Archive
	listing string // of the rule set, once it was run
}

func readGolden(t *testing.T, name string) *golden {
	t.Helper()
	path := filepath.Join("testdata", name+".txtar")
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &golden{path: path, Archive: a}
}

// run executes the golden and compares the batches. The returned proxy has the state of the
// golden's listing.
func (g *golden) run(t *testing.T) *proxy {
	t.Helper()
	m := newMachine(t)
	if g.section("frontends") != nil {
		p, _ := start(m, g.world("frontends"))
		g.listing = installed(t).list(m)
		return p
	}
	before, after := g.world("before"), g.world("after")
	p, _ := start(m, before)
	rendered := render(t, p.rules)
	p, batch := p.goTo(after)
	g.compare(t, "batch.nft", foldFamilies(batch.String()))
	if loader := loaderOf(t, before, after); loader.path != "" {
		byText := newMachine(t)
		loader.load(byText, rendered)
		loader.load(byText, batch.String())
		// A version of nft need not be able to list what another one loaded.
		if got, want := loader.list(byText), installed(t).list(m); got != want {
			t.Errorf("the batch, loaded as text and listed:%s", firstDifference(got, want))
		}
	}
	if g.section("back.nft") == nil {
		return p
	}
	p, batch = p.goTo(before)
	g.compare(t, "back.nft", foldFamilies(batch.String()))
	p, _ = p.goTo(after)
	return p
}

// loaderOf returns a version of nft that can load the rule sets of the worlds.
func loaderOf(t *testing.T, worlds ...*world) program {
	for _, w := range worlds {
		if !installed(t).loads(w, model.IPv6) {
			return newer[0]
		}
	}
	return installed(t)
}

// goTo changes the proxy to another world, by a restart if the configuration differs.
func (p *proxy) goTo(next *world) (*proxy, nft.Batch) {
	p.t.Helper()
	if p.world.config != next.config {
		return start(p.machine, next)
	}
	return p, p.turn(next)
}

func (g *golden) world(section string) *world { return parseWorld(*g.section(section)) }

// section is the text of a section, nil if there is none.
func (g *golden) section(name string) *string {
	for _, f := range g.Files {
		if f.Name == name {
			text := string(f.Data)
			return &text
		}
	}
	return nil
}

// compareListing compares the listing of the rule set, and returns that of IPv4.
func (g *golden) compareListing(t *testing.T, base string) string {
	t.Helper()
	ip, ip6, listed := strings.Cut(g.listing, "table ip6 ")
	if !listed { // of a change, or an error before
		return ""
	}
	all := unfold(ip)
	name, text := otherSection, newBlocks(base, all)
	if g.section(wholeSection) != nil {
		name, text = wholeSection, ip
	}
	text += lackingHooks(base, all)
	if other := newBlocks(inIPv6(all), unfold(ip6)) + lackingHooks(all, ip6); other != "" {
		text += "table ip6 kube-vmap\n" + other
	}
	g.compare(t, name, text)
	return all
}

// newBlocks returns the chains, maps and sets that the base does not have in the same words,
// without the type of a map or set if the base has it.
func newBlocks(base, blocks string) string {
	var out strings.Builder
	for block := range strings.SplitAfterSeq(blocks, "\t}\n") {
		head, elements, filled := strings.Cut(block, "\t\telements\n")
		switch isChain := strings.HasPrefix(block, "\tchain "); {
		case strings.Contains(base, block), !isChain && !filled && strings.Contains(base, strings.TrimSuffix(block, "\t}\n")):
		case filled && strings.Contains(base, head):
			name, _, _ := strings.Cut(head, "\n")
			out.WriteString(name + "\n" + elements)
		default:
			out.WriteString(head + elements)
		}
	}
	return out.String()
}

// baseChain matches a chain that the kernel calls: without another one the rest does not load.
var baseChain = regexp.MustCompile(`\t(chain [a-z-]+ \{\n)\t\ttype `)

// lackingHooks names the base chains of the base that are not among the blocks.
func lackingHooks(base, blocks string) string {
	var out strings.Builder
	for _, found := range baseChain.FindAllStringSubmatch(base, -1) {
		if !strings.Contains(blocks, found[1]) {
			out.WriteString("\tno " + strings.TrimSuffix(found[1], " {\n") + "\n")
		}
	}
	return out.String()
}

// oneProtocol replaces others by TCP in an element.
var oneProtocol = strings.NewReplacer("udp .", "tcp .", "sctp .", "tcp .")

// unfold returns the blocks of a listing with one element in a line, and only that of TCP if all
// protocols have the same.
func unfold(listing string) string {
	const elements = "\t\telements"
	var out strings.Builder
	_, body, _ := strings.Cut(strings.TrimSuffix(listing, "\n}\n"), "\n")
	for block := range strings.SplitSeq(body, "\n\n") {
		head, list, filled := strings.Cut(strings.TrimSuffix(block, "\n\t}"), "\n"+elements+" = { ")
		out.WriteString(head + "\n")
		if filled {
			out.WriteString(elements + "\n")
			list := strings.Split(strings.Join(strings.Fields(strings.TrimSuffix(list, " }")), " "), ", ")
			for _, e := range list {
				tcp := oneProtocol.Replace(e)
				lacks := func(protocol string) bool {
					return !slices.Contains(list, strings.Replace(tcp, "tcp .", protocol+" .", 1))
				}
				if tcp == e || slices.ContainsFunc([]string{"tcp", "udp", "sctp"}, lacks) {
					out.WriteString("\t\t" + e + "\n")
				}
			}
		}
		out.WriteString("\t}\n")
	}
	return out.String()
}

// compare compares a section, or rewrites it with -update.
func (g *golden) compare(t *testing.T, name, text string) {
	t.Helper()
	i := slices.IndexFunc(g.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		i = len(g.Files)
		g.Files = append(g.Files, txtar.File{Name: name})
	}
	if want := string(g.Files[i].Data); text != want && !*update {
		t.Errorf("%s, %s:%s", g.path, name, firstDifference(text, want))
	}
	g.Files[i].Data = []byte(text)
	if *update {
		if err := os.WriteFile(g.path, txtar.Format(g.Archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// firstDifference returns the first lines in which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < min(len(g), len(w)) && g[i] == w[i] {
		i++
	}
	show := func(lines []string) string {
		return strings.Join(lines[min(i, len(lines)):min(i+5, len(lines))], "\n\t")
	}
	return "\nhave\n\t" + show(g) + "\nwant\n\t" + show(w)
}

var (
	ipv6Words = strings.NewReplacer("icmp type", "icmpv6 type", " ip ", " ip6 ", "\tip ", "\tip6 ", "ipv4_addr", "ipv6_addr", "icmp", "ipv6-icmp",
		"10.244.0.0/16", "fd00:10:244::/56")
	ipv4Address    = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
	endpointNumber = regexp.MustCompile(`\bf[0-9a-f]{3}:[0-9a-f]+\b`)
)

// inIPv6 replaces the words and addresses of IPv4 by those of IPv6.
func inIPv6(text string) string {
	return ipv4Address.ReplaceAllStringFunc(ipv6Words.Replace(text), func(a string) string { return addressIn(model.IPv6, a).String() })
}

// foldFamilies writes a batch with the commands of IPv4 only, if those of IPv6 are the same but
// for addresses and the numbers of endpoints.
func foldFamilies(batch string) string {
	lines := strings.SplitAfter(batch, "\n")
	ip6 := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, " ip6 kube-vmap") })
	ip := strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, " ip6 kube-vmap") }), "")
	plain := func(text string) string { return endpointNumber.ReplaceAllString(text, "number") }
	if len(ip6) == 0 || plain(inIPv6(ip)) != plain(strings.Join(ip6, "")) {
		return batch
	}
	return ip + "# and the same of ip6\n"
}
