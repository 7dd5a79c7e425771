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

// describeSnapshot returns a snapshot as lines.
func describeSnapshot(v sync.Snapshot) string {
	lines := describeInstalled(v.Installed)
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
	return fmt.Sprintf("ready %t, kernel known %t, on %s\n", v.Ready, v.KernelKnown, v.Node.Name) + strings.Join(append(lines, ""), "\n")
}

// describeInstalled returns a line for each frontend.
func describeInstalled(all []nft.InstalledFrontend) []string {
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

// checkSnapshot returns an error if the loop claims to know the kernel but is wrong.
func (r *rig) checkSnapshot() error {
	v, err := r.loop.Snapshot(context.Background())
	if err != nil || !v.KernelKnown {
		return err
	}
	have, err := r.kernel.Read()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(describeInstalled(have.Installed()), describeInstalled(v.Installed)); diff != "" {
		return fmt.Errorf("the snapshot is wrong about the kernel, -kernel +snapshot\n%s", diff)
	}
	return nil
}
