package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
)

// ServerVersion returns the version of the API server, such as v1.36.0. It proves that the
// server is reachable, and needs no permission.
func ServerVersion(ctx context.Context, c ClientConfig) (string, error) {
	c.ContentType = runtime.ContentTypeJSON
	client, err := NewClient(c)
	if err != nil {
		return "", err
	}
	text, err := client.events.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("get the version of the API server: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("decode the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}
