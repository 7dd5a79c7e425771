package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// A release has the metadata of an image.
type release struct {
	name     string // as in localhost/kube-vmap
	version  string // the tag too
	revision string // the commit
	created  time.Time
	// architectures are those that are built for.
	architectures []string
	systems       []string // that kubectl-vmap is built for
	assets        bool     // also write binaries, manual pages, manifests and checksums
	url           string   // of the folder with the folders of versions
}

// complete fills missing fields from git and the environment.
func (r release) complete(root string) (release, error) {
	if r.created.IsZero() {
		if err := (epoch{&r.created}).Set(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
			return r, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	var committed string
	for _, ask := range []struct {
		missing bool
		to      *string
		args    []string
	}{
		{r.version == "", &r.version, []string{"describe", "--always", "--dirty"}},
		{r.revision == "", &r.revision, []string{"rev-parse", "HEAD"}},
		{r.created.IsZero(), &committed, []string{"log", "-1", "--format=%ct"}},
	} {
		if !ask.missing {
			continue
		}
		answer, err := exec.Command("git", append([]string{"-C", root}, ask.args...)...).Output()
		if err != nil {
			return r, fmt.Errorf("git %s (or give -version, -revision and -created): %w", strings.Join(ask.args, " "), err)
		}
		*ask.to = strings.TrimSpace(string(answer))
	}
	if err := (epoch{&r.created}).Set(committed); err != nil {
		return r, fmt.Errorf("time of the commit: %w", err)
	}
	for _, tag := range r.tags() {
		if _, err := name.NewTag(tag, name.StrictValidation); err != nil {
			return r, fmt.Errorf("-name and -version: %w", err)
		}
	}
	return r, nil
}

// tags returns the image's full names. The second one is the default of the manifests in
// deploy/.
func (r release) tags() []string {
	return []string{r.name + ":" + r.version, r.name + ":latest"}
}

// labels returns the labels of the image, in its configuration and its manifests.
// https://github.com/opencontainers/image-spec/blob/main/annotations.md
func (r release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "kube-vmap",
		"org.opencontainers.image.description": "A Kubernetes Service proxy for nodes with nftables",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
}

// An epoch is a time that is written as seconds since 1970. Setting it to an empty string
// does not change it.
type epoch struct{ *time.Time }

func (e epoch) Set(s string) error {
	seconds, err := strconv.ParseInt(cmp.Or(s, "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number of seconds since 1970", s)
	}
	if s != "" {
		*e.Time = time.Unix(seconds, 0).UTC()
	}
	return nil
}

func (e epoch) String() string {
	if e.Time == nil || e.IsZero() {
		return ""
	}
	return strconv.FormatInt(e.Unix(), 10)
}
