export const View: React.FC<Props> = ({ name }) => {
  return <div>{name}</div>;
};
export function App(): JSX.Element { return <View name="a" />; }
