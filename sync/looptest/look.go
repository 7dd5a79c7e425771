package looptest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/nft"
	"kube-vmap/sync"
)

// look is what the loop says of itself.
func (r *rig) look() (sync.Snapshot, error) {
	if r.loop == nil {
		return sync.Snapshot{}, errNoLoop
	}
	return r.loop.Snapshot(context.Background())
}

// looks compares what a look at the loop shows with a file.
func (s *script) looks(args []string) error {
	v, err := s.look()
	if err != nil {
		return err
	}
	return s.compare(args[0], describeView(&v))
}

// describeView says in lines what a view shows.
func describeView(v *sync.Snapshot) string {
	lines := describeStanding(v.Installed)
	for _, s := range v.Services {
		endpoints := 0
		for i := range s.Slices {
			endpoints += len(s.Slices[i].Endpoints)
		}
		lines = append(lines, fmt.Sprintf("knows %s with %d endpoints", s.Name, endpoints))
	}
	for _, c := range v.Conflicts {
		lines = append(lines, fmt.Sprintf("conflict %s: %s before %s", c.Match, c.Winner, c.Loser))
	}
	for _, p := range v.Problems {
		lines = append(lines, fmt.Sprintf("problem %s %s: %s", p.Object, p.Reason, p.Text))
	}
	slices.Sort(lines)
	return fmt.Sprintf("ready %t, sure %t, on %s\n", v.Ready, v.KernelKnown, v.Node.Name) + strings.Join(append(lines, ""), "\n")
}

// describeStanding writes a line for each frontend.
func describeStanding(all []nft.InstalledFrontend) []string {
	lines := make([]string, len(all))
	for i, s := range all {
		lines[i] = fmt.Sprintf("%s of %s", s.Match, s.Service)
		for _, e := range s.Cluster {
			lines[i] += " " + e.String()
		}
		for k, e := range s.Local {
			if k == 0 {
				lines[i] += " local"
			}
			lines[i] += " " + e.String()
		}
	}
	slices.Sort(lines)
	return lines
}

// checkView returns an error if the loop is sure of something that the kernel does
// not hold.
func (r *rig) checkView() error {
	v, err := r.look()
	if err != nil || !v.KernelKnown {
		return err
	}
	have, err := r.kernel.Read()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(describeStanding(have.Installed()), describeStanding(v.Installed)); diff != "" {
		return fmt.Errorf("a look at the loop shows what the kernel does not hold, -kernel +look\n%s", diff)
	}
	return nil
}
