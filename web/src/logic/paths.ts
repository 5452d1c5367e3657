// The console's own addresses.
const part = encodeURIComponent;

export const clusterPath = (cluster: string, tab = ""): string => `/clusters/${part(cluster)}${tab && `/${tab}`}`;
export const topicPath = (cluster: string, topic: string): string => `${clusterPath(cluster)}/topics/${part(topic)}`;
export const groupPath = (cluster: string, group: string): string => `${clusterPath(cluster)}/groups/${part(group)}`;
export const linkPath = (cluster: string, link: string): string => `${clusterPath(cluster)}/links/${part(link)}`;
