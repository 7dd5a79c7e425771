package ruleset

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"kube-vmap/model"
	"kube-vmap/nft"
)

var update = flag.Bool("update", false, "rewrite batches and listings of testdata")

// A golden's listing is as nft prints it in a section ruleset.nft, of IPv6 only the difference.
// In a section changed.nft, it has only what the rule set of [emptyWorld] does not have.
const (
	emptyWorld   = "testdata/empty.txtar"
	wholeSection = "ruleset.nft"
	otherSection = "changed.nft"
)

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	all := make([]*golden, len(files))
	t.Run("all", func(t *testing.T) {
		for i, file := range files {
			all[i] = readGolden(t, file)
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				p := all[i].run(t)
				checkListings(t, p)
				if !*update {
					all[i].compareListing(t, readBase(t))
				}
			})
		}
	})
	if *update && !t.Failed() {
		writeAll(t, all)
	}
}

// writeAll rewrites the goldens, those first with which others are compared.
func writeAll(t *testing.T, all []*golden) {
	t.Helper()
	var listings []string
	for _, g := range all {
		listings = append(listings, g.listing)
		if g.path == emptyWorld {
			g.compareListing(t, base{})
			g.write(t)
		}
	}
	if err := os.WriteFile(oftenFile, []byte(oftenOf(listings, readBase(t).empty)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		g.compareListing(t, readBase(t))
		g.write(t)
	}
}

// golden is a file of testdata.
type golden struct {
	path string
	*txtar.Archive
	listing string // of the rule set, once it was run
}

func readGolden(t *testing.T, path string) *golden {
	t.Helper()
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &golden{path: path, Archive: a}
}

// run executes the golden and compares the result. The returned proxy has the state of the
// golden's listing.
func (g *golden) run(t *testing.T) *proxy {
	t.Helper()
	m := newMachine(t)
	if g.section("frontends") != nil {
		p, _ := start(m, g.world(t, "frontends"))
		g.listing = installed(t).list(m)
		return p
	}
	before, after := g.world(t, "before"), g.world(t, "after")
	p, _ := start(m, before)
	rendered := render(t, p.rules)
	p, batch := p.goTo(after)
	g.compare(t, "batch.nft", foldFamilies(batch.String()))
	g.listing = installed(t).list(m)
	if loader := loaderOf(t, before, after); loader.path != "" {
		byText := newMachine(t)
		loader.load(byText, rendered)
		loader.load(byText, batch.String())
		// A version of nft need not be able to list what another one loaded.
		if got := loader.list(byText); got != g.listing {
			t.Errorf("the batch, loaded as text and listed:%s", firstDifference(got, g.listing))
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
			return newer
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

// world reads the frontends of a section. Every golden must be of both families
// and all protocols, as far as it has frontends at all.
func (g *golden) world(t *testing.T, section string) *world {
	t.Helper()
	w, err := parseWorld(*g.section(section))
	if err != nil {
		t.Fatalf("%s: %v", g.path, err)
	}
	var families [len(model.Families)]bool
	protocols := map[model.Protocol]bool{}
	for m, f := range w.frontends {
		families[m.Family] = true
		protocols[m.Protocol] = true
		if len(f.Pool.Cluster) > nft.MaxSlots { // one listing of so many is enough
			protocols[model.TCP], protocols[model.UDP], protocols[model.SCTP] = true, true, true
		}
	}
	if len(w.frontends) > 0 && (families != [...]bool{true, true} || len(protocols) != len(model.Protocols)) {
		t.Errorf("%s, %s: the families are %v and the protocols %v, want all", g.path, section, families, protocols)
	}
	return w
}

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

// compareListing compares the listing of the rule set.
func (g *golden) compareListing(t *testing.T, b base) {
	t.Helper()
	if g.section(wholeSection) != nil {
		ip, ip6, _ := strings.Cut(g.listing, secondTable)
		g.compare(t, wholeSection, ip+b.condenseIPv6(blocksOf(ip), ip6))
		return
	}
	g.compare(t, otherSection, b.condense(g.listing))
}

// compare compares a section, or replaces it with -update.
func (g *golden) compare(t *testing.T, name, text string) {
	t.Helper()
	for i := range g.Files {
		f := &g.Files[i]
		switch {
		case f.Name != name:
		case *update:
			f.Data = []byte(text)
			return
		default:
			if want := string(f.Data); text != want {
				t.Errorf("%s, %s:%s", g.path, name, firstDifference(text, want))
			}
			return
		}
	}
	if !*update {
		t.Errorf("%s has no section %s", g.path, name)
	}
	g.Files = append(g.Files, txtar.File{Name: name, Data: []byte(text)})
}

func (g *golden) write(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(g.path, txtar.Format(g.Archive), 0o644); err != nil {
		t.Fatal(err)
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
